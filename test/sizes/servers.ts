/** Servers on each event store, for tests of how much goes into it: the embedded one, and EventStoreDB's double. */
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPulls, type Test } from '../commands/pull-requests/pull-repository.ts'
import { startEventStoreDouble } from '../doubles/eventstore.ts'
import { GIT_ENVIRONMENT } from '../git-client.ts'

export const EVENT_STORES = ['the embedded store', 'EventStoreDB'] as const

async function environmentOf(test: Test, store: (typeof EVENT_STORES)[number]) {
  if (store === 'the embedded store') return {}
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-sizes-'))
  const double = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  test.teardown(async () => {
    await double.close()
    await rm(dir, { recursive: true, force: true, maxRetries: 3 })
  })
  return { EVENTSTORE_URL: double.url }
}

/** A server with people on that store, without the log of what it refuses. */
export async function startOn(test: Test, store: (typeof EVENT_STORES)[number], environment = {}) {
  return startPulls(test, { LOG_LEVEL: 'silent', ...(await environmentOf(test, store)), ...environment })
}

/** Runs git in a directory with this input. */
export function gitWithInput(dir: string, args: readonly string[], input: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('git', args, { cwd: dir, env: GIT_ENVIRONMENT })
    let out = ''
    let problem = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      problem += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(out.trim())
      else reject(new Error(`git ${args[0]}: ${problem}`))
    })
    child.stdin.end(input)
  })
}
