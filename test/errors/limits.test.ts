/** Each limit has a counter, which its refusals and aborts increment. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { settings } from '../../src/config/setting-table.ts'
import { LIMITS, limitReached, onLimitReached } from '../../src/errors/limits.ts'

const SRC = fileURLToPath(new URL('../../src', import.meta.url))
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && name !== 'errors/limits.ts')
  .map((name) => ({ name, lines: readFileSync(join(SRC, name), 'utf8').split('\n') }))

/** Code that refuses or aborts because of a limit. */
const AT_A_LIMIT =
  /refuse\.(?:tooManyRequests|tooLarge)\(|refuse\[lacking|new (?:SlotsFull|GitTooSlow|GitOutputTooLarge|GitRequestTooLarge|GitClientGone)\(|socket\.destroy\(\)/
const SAYS_SO = /limitReached\(|atLimit\(|limitReached\(limit\)/
/** Maximum distance of the counter, in lines. */
const NEAR = 14

/** Such code that has another reason, or is counted elsewhere. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'concurrency/semaphore.ts: ? refuse.tooManyRequests(': 'the class of the error: its one throw counts',
  'git/process/errors.ts': 'the classes of errors: their throws count',
  'git/push/push-request.ts: new GitClientGone(': 'the client is gone by itself',
  'git/http/request-body.ts: new GitClientGone(`the client went': 'the client is gone by itself',
  "git/http/request-body.ts: return new GitClientGone('the client went": 'the client is gone by itself',
  'git/process/metered-output.ts': 'the timer that makes the error counts',
  'http/connections/connections.ts: for (const { socket } of idle) socket.destroy()': 'the server stops',
  'http/connections/connections.ts: if (connection === undefined) return void socket.destroy()':
    'it is closed already',
  'events/store/eventstoredb/diagnosis.ts': "a connection of the server's own",
  'upgrade/grpc-connections.ts: for (const socket of open) socket.destroy()': 'the server stops',
  'upgrade/paced-socket.ts: socket.destroy()': 'whoever reads it has ended it',
}

t.test('every refusal and abort because of a limit is counted', async (t) => {
  const silent: string[] = []
  for (const { name, lines } of files) {
    for (const [i, line] of lines.entries()) {
      const [found] = AT_A_LIMIT.exec(line) ?? []
      if (found === undefined || /^\s*(\*|\/\/)/.test(line)) continue
      const near = lines.slice(Math.max(0, i - NEAR), i + NEAR)
      if (near.some((other) => SAYS_SO.test(other))) continue
      const isElsewhere = Object.keys(ELSEWHERE).some((known) => {
        const [file = '', text = ''] = known.split(': ')
        return name === file && line.includes(text)
      })
      if (!isElsewhere) silent.push(`${name}:${i + 1}: ${line.trim()}`)
    }
  }
  t.strictSame(silent, [], 'say limitReached(…) there, with a name of src/errors/limits.ts')
})

t.test('every limit has a place that counts it', async (t) => {
  const code = files.map(({ lines }) => lines.join('\n')).join('\n')
  t.strictSame(
    Object.keys(LIMITS).filter((name) => !code.includes(`'${name}'`)),
    [],
  )
})

/** Settings of sizes and times without a refusal or an abort. */
const NO_LIMITS: Readonly<Record<string, string>> = {
  DRAIN_MS: 'the server waits',
  START_TIMEOUT_MS: 'the process ends, and says why',
  PAGE_LIMIT_DEFAULT: 'a list is shorter, and says how long it is',
  PAGE_LIMIT_MAX: 'a list is shorter, and says how long it is',
  PROJECTION_WAIT_MS: 'the answer comes, and says that queries lag; read_model_lag_seconds shows it',
  MAX_DIFF_LINES: 'a number stays smaller',
  MAX_DIFF_FILES: 'a list is shorter, and says so',
  MAX_DIFF_LINE_CHARACTERS: 'a part of a line is not held',
}

t.test('every setting that limits something has a counter', async (t) => {
  const counted = new Set(Object.values(LIMITS).flatMap((limit) => limit.settings ?? []))
  const names = settings.map(({ name }) => name)
  const limiting = names.filter((name) => /^MAX_|_MAX_|_BYTES$|_SLOTS$|_MS$|_LIMIT/.test(name))
  t.strictSame(
    limiting.filter((name) => !counted.has(name) && NO_LIMITS[name] === undefined),
    [],
    'name them in src/errors/limits.ts',
  )
  t.strictSame(
    [...counted, ...Object.keys(NO_LIMITS)].filter((name) => !names.some((known) => known === name)),
    [],
    'settings that do not exist',
  )
})

t.test('a listener gets each limit until it ends', async (t) => {
  const heard: string[] = []
  const end = onLimitReached((limit) => heard.push(limit))
  limitReached('push_bytes')
  end()
  limitReached('push_bytes')
  t.strictSame(heard, ['push_bytes'])
})
