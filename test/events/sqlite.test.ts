import { type ChildProcessWithoutNullStreams, execFile, spawn, spawnSync } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { closeSync, existsSync, openSync, readSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { chainProblem, hashOf, lastHashOf, STREAM_START } from '../../src/events/chain.ts'
import { WrongExpectedRevision } from '../../src/events/event-store.ts'
import { openSqliteEventStore } from '../../src/events/sqlite.ts'
import { checkSqliteLog } from '../../src/events/sqlite-check.ts'
import { openSqlite } from '../../src/sqlite.ts'
import { program } from '../program.ts'
import { all, eventStoreContract, newEvent, newStream } from './event-store-contract.ts'

const run = promisify(execFile)

eventStoreContract(t, async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  return { store, reopen: async () => openSqliteEventStore(file) }
})

t.test('a subscription of a log that was just opened leaves out what is not wanted', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const before = openSqliteEventStore(file)
  const stream = newStream()
  const wanted = { ...newEvent(), type: 'Wanted' }
  await before.append(stream, [newEvent(), wanted, newEvent()], 'no-stream')
  await before.close()
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  const abort = new AbortController()
  const ids: string[] = []
  const passed = (position: number) => {
    t.equal(position, 3)
    abort.abort()
  }
  const unwanted = new Set([newEvent().type])
  for await (const batch of store.subscribe({ after: 0, signal: abort.signal, unwanted, passed }))
    ids.push(...batch.map(({ id }) => id))
  t.strictSame(ids, [wanted.id])
})

t.test(
  'an id that is elsewhere in the stream makes its whole append fail, but no other append',
  async (t) => {
    const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
    t.teardown(() => store.close())
    const [stream, other] = [newStream(), newStream()]
    const old = newEvent()
    await store.append(stream, [old, newEvent()], 'no-stream')
    const twice = newEvent()
    const [first, refused, doubled, last] = await Promise.allSettled([
      store.append(other, [newEvent()], 'no-stream'),
      store.append(stream, [newEvent(), old], 1),
      store.append(newStream(), [twice, twice], 'no-stream'),
      store.append(other, [newEvent()], 0),
    ])
    t.match(refused, { status: 'rejected', reason: WrongExpectedRevision })
    t.match(refused, { reason: { stream, actual: 1 } })
    t.match(doubled, { status: 'rejected', reason: WrongExpectedRevision })
    t.match(doubled, { reason: { actual: null } })
    t.match([first, last], [{ status: 'fulfilled' }, { status: 'fulfilled' }])
    t.equal((await all(store.readStream(stream))).length, 2)
    t.equal((await all(store.readStream(other))).length, 2)
  },
)

t.test(
  'a log of an older version can be used; new events link to its last event without a hash',
  async (t) => {
    const file = join(t.testdir(), 'events.db')
    const [stream, other] = [newStream(), newStream()]
    const old = [newEvent({ n: 0 }), newEvent({ n: 1 })]
    const db = openSqlite(file, 'FULL')
    db.exec(`
    CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL);
    CREATE TABLE events (
      position INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL REFERENCES streams (id),
      revision INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL, metadata TEXT NOT NULL
    );
    CREATE UNIQUE INDEX events_by_revision ON events (stream, revision);
    CREATE UNIQUE INDEX events_by_id ON events (stream, id);
    INSERT INTO streams VALUES (1, '${stream}', 1)`)
    const add = db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (1, ?, ?, ?, ?, ?)',
    )
    for (const [n, { id, type, data, metadata }] of old.entries()) {
      add.run(n, id, type, JSON.stringify(data), JSON.stringify(metadata))
    }
    db.close()
    for (const round of [0, 1]) {
      const store = openSqliteEventStore(file)
      t.strictSame(await store.append(stream, old, 'no-stream'), { revision: 1, position: 2 })
      await store.append(stream, [newEvent({ round }), newEvent()], 1 + 2 * round)
      await store.append(other, [newEvent()], 'any')
      await store.close()
    }
    const store = openSqliteEventStore(file)
    t.teardown(() => store.close())
    const events = await all(store.readStream(stream))
    t.strictSame(
      events.slice(0, 2).map(({ data, metadata }) => ({ data, metadata })),
      old.map(({ data, metadata }) => ({ data, metadata })),
    )
    const [, last, first] = events
    t.equal(last && hashOf(last), first?.metadata.previous)
    let end = STREAM_START
    for (const event of events) {
      t.equal(chainProblem(event, end, event.revision > 2), undefined)
      end = { revision: event.revision, hash: lastHashOf(event) }
    }
    t.equal(events.length, 6)
    t.equal(checkSqliteLog(file), undefined)
  },
)

t.test('an event whose type is damaged reaches a subscription that wants other types', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  await store.append(newStream(), [newEvent(), newEvent(), newEvent()], 'no-stream')
  await store.close()
  const db = openSqlite(file, 'FULL')
  t.teardown(() => db.close())
  for (const damaged of [`CAST(x'ff41' AS TEXT)`, `x'41'`]) {
    db.exec(`UPDATE events SET type = ${damaged} WHERE position = 2`)
    const reopened = openSqliteEventStore(file)
    const unwanted = new Set([newEvent().type])
    const signal = AbortSignal.timeout(60_000)
    await t.rejects(
      all(reopened.subscribe({ after: 0, signal, unwanted })),
      { name: 'BrokenEvent', position: 2 },
      damaged,
    )
    await reopened.close()
  }
})

t.test('a disk that cannot be read for a while is no damage, and the log goes on when it can', async (t) => {
  const file = join(t.testdir(), 'events.db')
  const store = openSqliteEventStore(file)
  t.teardown(() => store.close())
  const stream = newStream()
  await store.append(stream, [newEvent()], 'no-stream')
  t.equal((await all(store.readStream(stream))).length, 1)
  // Another connection writes, so that this one has to read the file again, whose beginning is gone for a while.
  const other = openSqlite(file, 'FULL')
  other.exec('CREATE TABLE another (one INTEGER); DROP TABLE another; PRAGMA wal_checkpoint(TRUNCATE)')
  const bytes = openSync(file, 'r+')
  const beginning = Buffer.alloc(100)
  readSync(bytes, beginning, 0, 100, 0)
  writeSync(bytes, Buffer.alloc(100), 0, 100, 0)
  const unavailable = { name: 'StoreUnavailable' }
  await t.rejects(all(store.readStream(stream)), unavailable)
  await t.rejects(store.append(stream, [newEvent()], 'any'), unavailable)
  writeSync(bytes, beginning, 0, 100, 0)
  closeSync(bytes)
  other.close()
  t.equal((await all(store.readStream(stream))).length, 1)
  await store.append(stream, [newEvent()], 0)
  t.equal((await all(store.readStream(stream))).length, 2)
})

t.test('a subscription removes its listener from a signal that is used longer', async (t) => {
  const store = openSqliteEventStore(join(t.testdir(), 'events.db'))
  t.teardown(() => store.close())
  await store.append(newStream(), [newEvent()], 'any')
  const { signal } = new AbortController()
  for await (const _ of store.subscribe({ after: 0, signal })) break
  t.strictSame(getEventListeners(signal, 'abort'), [])
})

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
