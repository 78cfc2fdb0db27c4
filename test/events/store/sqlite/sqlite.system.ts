/** A log whose writer is killed, or has no disk space, keeps the acknowledged events. */
import { type ChildProcessWithoutNullStreams, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openSqliteEventStore } from '../../../../src/events/store/sqlite/sqlite.ts'
import { program } from '../../../program.ts'
import { newEvent } from '../../event-store-contract.ts'

const run = promisify(execFile)

t.test('after kill -9 every acknowledged event is in the log and no stream has a gap', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const acknowledged: Acknowledged[] = []
  for (let round = 0; round < 3; round++) {
    const writer = startWriter(t, [process.execPath], file)
    for (let appends = 0; appends < 50; appends++) acknowledged.push(await writer.acknowledged())
    // Do not wait: the writer must die at some moment while it appends.
    setTimeout(() => writer.child.kill('SIGKILL'), 20 + 7 * round)
    acknowledged.push(...(await writer.rest()))
    await checkLog(t, file, acknowledged)
  }
})

t.test(
  'on a full disk appends give StoreUnavailable, and work again when there is room',
  { skip: canFillDisk() ? false : 'needs the right to mount a tmpfs in a user namespace' },
  async (t) => {
    const dir = t.testdir({ disk: {} })
    const disk = join(dir, 'disk')
    // The mount, the ballast, the writer and the final copy must share one mount namespace.
    const script =
      'mount -t tmpfs -o size=2m none "$0" && head -c 1000000 /dev/zero > "$0/ballast" && "$@"; cp "$0"/events.db* "$0/.."'
    const command = ['unshare', '-Urm', 'bash', '-c', script, disk, process.execPath]
    const writer = startWriter(t, command, join(disk, 'events.db'), join(disk, 'ballast'))
    const before = await writer.untilRefused(4)
    writer.child.stdin.write('there is room again\n')
    const after = [await writer.acknowledged(), await writer.acknowledged(), await writer.acknowledged()]
    const rest = await writer.untilRefused(4)
    writer.child.stdin.write('stop\n')
    await once(writer.child, 'close')
    await checkLog(t, join(dir, 'events.db'), [...before, ...after, ...rest])
  },
)

t.test(
  'at a file size limit appends give StoreUnavailable, and work again when the limit is lifted',
  { skip: existsSync('/usr/bin/prlimit') ? false : 'needs /usr/bin/prlimit' },
  async (t) => {
    const file = join(t.testdir(), 'events.db')
    // Node ignores the signal that the limit sends. The code that tap would load into the process does not.
    const command = ['bash', '-c', 'unset NODE_OPTIONS; ulimit -S -f 512; exec "$0" "$@"', process.execPath]
    const writer = startWriter(t, command, file)
    const before = await writer.untilRefused(4)
    await run('/usr/bin/prlimit', ['--fsize=unlimited', '--pid', String(writer.child.pid)])
    writer.child.stdin.write('there is room again\n')
    const after: Acknowledged[] = []
    for (let appends = 0; appends < 100; appends++) after.push(await writer.acknowledged())
    writer.child.kill('SIGKILL')
    await checkLog(t, file, [...before, ...after, ...(await writer.rest())])
  },
)

interface Acknowledged {
  stream: string
  revision: number
  ids: string[]
}

type Line = Acknowledged | { refused: string }

/** Checks that the log of a dead writer has all acknowledged events and can be written again. */
async function checkLog(t: Test, file: string, acknowledged: readonly Acknowledged[]): Promise<void> {
  const store = openSqliteEventStore(file)
  try {
    const streams = new Map<string, string[]>()
    for await (const { stream, revision, id } of store.readAll()) {
      const ids = streams.get(stream) ?? []
      if (revision !== ids.length) t.fail(`${stream} has revision ${revision} after ${ids.length} events`)
      streams.set(stream, [...ids, id])
    }
    const lost = acknowledged.filter(({ stream, revision, ids }) => {
      const there = streams.get(stream)?.slice(revision + 1 - ids.length, revision + 1)
      return JSON.stringify(there) !== JSON.stringify(ids)
    })
    t.strictSame(lost, [], `all ${acknowledged.length} acknowledged appends are in the log`)
    t.ok(
      streams.values().every((ids) => ids.length % 2 === 0),
      'no append is written in part',
    )
    await t.resolves(store.append('one', [newEvent()], (streams.get('one')?.length ?? 0) - 1))
    await store.append('one', [newEvent()], 'any')
  } finally {
    await store.close()
  }
}

function startWriter(t: Test, [command = '', ...args]: string[], ...options: string[]) {
  const child: ChildProcessWithoutNullStreams = spawn(command, [
    ...args,
    program('test/events/sqlite-writer'),
    ...options,
  ])
  t.teardown(() => child.kill('SIGKILL'))
  let complaints = ''
  child.stderr.on('data', (chunk) => {
    complaints += chunk
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()

  async function line(): Promise<Line> {
    const next = await lines.next()
    if (next.done) throw new Error(`the writer ended: ${complaints}`)
    const value: Line = JSON.parse(next.value)
    return value
  }

  return {
    child,
    async acknowledged(): Promise<Acknowledged> {
      const next = await line()
      if ('refused' in next) throw new Error(`the writer was refused: ${next.refused}`)
      return next
    },
    /** The appends acknowledged before that many refusals. Every refusal must be StoreUnavailable. */
    async untilRefused(count: number): Promise<Acknowledged[]> {
      const acknowledged: Acknowledged[] = []
      for (let refusals = 0; refusals < count; ) {
        const next = await line()
        if ('refused' in next) {
          t.equal(next.refused, 'StoreUnavailable')
          refusals += 1
        } else acknowledged.push(next)
      }
      return acknowledged
    },
    async rest(): Promise<Acknowledged[]> {
      const acknowledged: Acknowledged[] = []
      for await (const text of { [Symbol.asyncIterator]: () => lines }) {
        const next: Line = JSON.parse(text)
        if (!('refused' in next)) acknowledged.push(next)
      }
      return acknowledged
    },
  }
}

function canFillDisk(): boolean {
  const script = 'mount -t tmpfs -o size=1m none "$0"'
  return spawnSync('unshare', ['-Urm', 'bash', '-c', script, tmpdir()]).status === 0
}
