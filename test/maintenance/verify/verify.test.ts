import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { seedEvents } from '../../../bench/seed/events.ts'
import type { NewEvent, RecordedEvent } from '../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { BrokenEvent } from '../../../src/events/store/sqlite/log.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import type { VerifyProgress } from '../../../src/maintenance/verify/progress.ts'
import type { VerifyReport } from '../../../src/maintenance/verify/report.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { createProjector } from '../../../src/projections/projector/projector.ts'
import { openMongoReadStore } from '../../../src/projections/store/mongodb/mongodb.ts'
import { checkSqliteViews } from '../../../src/projections/store/sqlite/check.ts'
import { openSqliteReadStore } from '../../../src/projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { BrokenFile } from '../../../src/storage/sqlite/sqlite.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts, mongoWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'
import { all, newEvent } from '../../events/event-store-contract.ts'
import { aDirectory, changeByte, eventsIn, offsetsOf, tamper, verified } from './setup.ts'

t.test('an untouched directory is sound, and no temporary files are left', async (t) => {
  const directory = await aDirectory(t)
  const events = await eventsIn(directory)
  const files = readdirSync(directory.dir)
  const progress: VerifyProgress[] = []
  const report = await verified(directory, { onProgress: (step) => progress.push(step) })
  t.match(report, {
    sound: true,
    log: { events: events.length, soundUpTo: events.at(-1)?.position },
  })
  t.equal(report.log.difference, undefined)
  t.strictSame(
    report.views.models.map(({ name, state }) => [name, state]),
    READ_MODELS.map(({ name }) => [name, 'same']),
  )
  t.ok(report.views.documents > 20)
  t.strictSame([...new Set(progress.map(({ phase }) => phase))], ['log', 'views'])
  for (const phase of ['log', 'views'] as const) {
    const last = progress.filter((step) => step.phase === phase).at(-1)
    t.ok(last !== undefined && last.done === last.total, phase)
  }
  t.strictSame(readdirSync(directory.dir), files)
})

/** Checks that the report names this event as the first damaged one. */
function names(t: Test, report: VerifyReport, events: readonly RecordedEvent[], event: RecordedEvent): void {
  const { stream, revision, position } = event
  t.equal(report.sound, false)
  t.match(report.log.difference, { stream, revision, position, problem: String })
  const before = events.filter((other) => other.position < position)
  t.equal(report.log.events, before.length)
  t.equal(report.log.soundUpTo, before.at(-1)?.position ?? 0)
}

const isOpening = ({ type }: RecordedEvent) => type === 'IssueOpened'

/** An event in the middle of its stream, and the last event of a stream. */
function inTheMiddleAndLast(events: readonly RecordedEvent[]): [RecordedEvent, RecordedEvent] {
  const middle = events.find(
    (event) => isOpening(event) && events.some((e) => e.stream === event.stream && e.revision > 0),
  )
  const last = events.findLast((event) => event.stream === middle?.stream)
  if (middle === undefined || last === undefined || middle === last) throw new Error('the story is too short')
  return [middle, last]
}

const columns = ['id', 'type', 'data', 'metadata'] as const

for (const which of ['in the middle', 'at the end'] as const) {
  t.test(`one byte changed anywhere in an event ${which} of its stream is found`, async (t) => {
    const directory = await aDirectory(t)
    const { eventsFile } = directory
    const events = await eventsIn(directory)
    const [middle, last] = inTheMiddleAndLast(events)
    const event = which === 'in the middle' ? middle : last
    // The columns follow each other in the file.
    const texts = [event.id, event.type, JSON.stringify(event.data), JSON.stringify(event.metadata)]
    const [start, ...others] = offsetsOf(eventsFile, texts.join(''))
    if (start === undefined || others.length > 0) throw new Error('the event does not stand there once')
    let offset = start
    for (const [i, column] of columns.entries()) {
      const length = Buffer.byteLength(texts[i] ?? '')
      for (const place of [offset, offset + Math.floor(length / 2), offset + length - 1]) {
        changeByte(eventsFile, place)
        t.comment(`byte ${place - offset} of ${column}`)
        names(t, await verified(directory), events, event)
        changeByte(eventsFile, place)
      }
      offset += length
    }
    t.equal((await verified(directory)).sound, true, 'it is sound when the byte is restored')
  })
}

t.test('each changed bit in an event is found, also when the text becomes invalid UTF-8', async (t) => {
  const directory = await aDirectory(t)
  const { eventsFile } = directory
  const events = await eventsIn(directory)
  const [middle] = inTheMiddleAndLast(events)
  const texts = [middle.id, middle.type, JSON.stringify(middle.data), JSON.stringify(middle.metadata)]
  const [start = 0] = offsetsOf(eventsFile, texts.join(''))
  const data = start + middle.id.length + middle.type.length
  const titles = data + JSON.stringify(middle.data).indexOf('"title":"') + '"title":"'.length
  for (let bit = 0; bit < 8; bit++) {
    changeByte(eventsFile, titles, bit)
    t.comment(`bit ${bit}`)
    names(t, await verified(directory), events, middle)
    changeByte(eventsFile, titles, bit)
  }
  for (const [column, place] of [
    start,
    start + middle.id.length,
    data,
    data + (texts[2]?.length ?? 0),
  ].entries()) {
    changeByte(eventsFile, place, 7)
    names(t, await verified(directory), events, middle)
    const store = openSqliteEventStore(eventsFile)
    for (const read of [store.readAll({ direction: 'backwards' }), store.readStream(middle.stream)]) {
      const { position, stream, revision } = middle
      await t.rejects(all(read), { name: 'BrokenEvent', position, stream, revision }, String(columns[column]))
    }
    await store.close()
    changeByte(eventsFile, place, 7)
  }
})

t.test('a stream name that became invalid UTF-8 is found', async (t) => {
  const directory = await aDirectory(t)
  const [middle] = inTheMiddleAndLast(await eventsIn(directory))
  for (const place of offsetsOf(directory.eventsFile, middle.stream)) {
    changeByte(directory.eventsFile, place, 7)
    t.equal((await verified(directory)).sound, false)
    changeByte(directory.eventsFile, place, 7)
  }
})

t.test('each changed bit in a document is found, with its collection and id', async (t) => {
  const directory = await aDirectory(t)
  const { viewsFile } = directory
  const store = openSqliteReadStore(viewsFile)
  const collection = { name: 'issues', indexes: [], arrays: [] }
  const [document] = await store.range(collection, { limit: 1 })
  await store.close()
  if (document?.text === undefined) throw new Error('there is no issue')
  const [start = 0] = offsetsOf(viewsFile, document.text)
  const place = start + document.text.indexOf('"title":"') + '"title":"'.length
  for (let bit = 0; bit < 8; bit++) {
    changeByte(viewsFile, place, bit)
    const { sound, views } = await verified(directory)
    t.equal(sound, false)
    const said = views.failure ?? `${views.difference?.id} of ${views.difference?.collection}`
    t.match(said, `${document.id} of issues`)
    if (bit === 7) {
      const reader = openSqliteReadStore(viewsFile)
      const bad = { name: 'StoreUnavailable', message: /a document of issues is not UTF-8/ }
      await t.rejects(reader.get<object>(collection, document.id), bad)
      await t.rejects(reader.getMany<object>(collection, [document.id]), bad)
      await t.rejects(reader.find<object>(collection, {}), bad)
      await reader.close()
    }
    changeByte(viewsFile, place, bit)
  }
  t.equal((await verified(directory)).sound, true)
})

t.test('a document whose index values cannot be computed is reported', async (t) => {
  const directory = await aDirectory(t)
  const [place = 0] = offsetsOf(directory.viewsFile, '{"id":')
  const start = readFileSync(directory.viewsFile)
  start[place] = 1
  writeFileSync(directory.viewsFile, start)
  t.match(checkSqliteViews(directory.viewsFile), /views\.db is damaged: malformed JSON/)
  t.equal((await verified(directory)).sound, false)
})

t.test('equal JSON in other characters is found', async (t) => {
  const directory = await aDirectory(t)
  const events = await eventsIn(directory)
  const [middle] = inTheMiddleAndLast(events)
  tamper(
    directory.eventsFile,
    `UPDATE events SET data = replace(data, '"title":', '"\\u0074itle":') WHERE position = ${middle.position}`,
  )
  const [same] = await eventsIn(directory).then((read) => read.filter(({ id }) => id === middle.id))
  t.strictSame(same, middle)
  names(t, await verified(directory), events, middle)
})

t.test('index values are compared with the documents', async (t) => {
  const directory = await aDirectory(t)
  const { viewsFile } = directory
  tamper(viewsFile, `CREATE TABLE kept AS SELECT * FROM arr_issues`)
  for (const change of [
    `DELETE FROM arr_issues WHERE rowid_of_test`.replace(
      'rowid_of_test',
      `field = (SELECT min(field) FROM kept)`,
    ),
    `INSERT INTO arr_issues SELECT field, id, 'another' FROM kept LIMIT 1`,
  ]) {
    tamper(viewsFile, change)
    const { sound, views } = await verified(directory)
    t.equal(sound, false)
    t.match(views.failure, /views\.db is damaged: the filter index of issues (lacks|has) an element/)
    tamper(viewsFile, 'DELETE FROM arr_issues; INSERT INTO arr_issues SELECT * FROM kept')
  }
  t.equal((await verified(directory)).sound, true)
})

t.test(
  'the words of parts, their owners and the index of words are compared with the documents',
  async (t) => {
    const directory = await aDirectory(t)
    const { viewsFile } = directory
    t.equal((await verified(directory)).sound, true)
    const [parts, index] = ['part_issue_texts', 'words_issue_texts']
    const first = `(SELECT min(seq) FROM ${parts})`
    const wordsOfFirst = `(SELECT words FROM ${parts} WHERE seq = ${first})`
    const document = /views\.db is damaged: the word index of issue_texts differs from document /
    const put = `DELETE FROM ${index} WHERE rowid = ${first}; INSERT INTO ${index} (rowid, words) VALUES (${first}, `
    for (const [change, problem, undo] of [
      [`UPDATE ${parts} SET owner = '99.1' || owner WHERE seq = ${first}`, document, 'substr(owner, 5)'],
      [`UPDATE ${parts} SET words = 'x' || words WHERE seq = ${first}`, document, 'substr(words, 2)'],
      [
        `INSERT INTO ${parts} (seq, id, owner) VALUES (9999, 'lost', '')`,
        /1 parts of issue_texts have no document/,
        '',
      ],
      [`DELETE FROM ${index} WHERE rowid = ${first}`, /the index of words of issue_texts lacks entries/, ''],
      [`${put}${wordsOfFirst} || ' another')`, /the index of words of issue_texts has wrong entries/, ''],
    ] as const) {
      tamper(viewsFile, change)
      const { sound, views } = await verified(directory)
      t.equal(sound, false, change)
      t.match(views.failure, problem)
      tamper(
        viewsFile,
        undo === ''
          ? `DELETE FROM ${parts} WHERE id = 'lost'; ${put}${wordsOfFirst})`
          : `UPDATE ${parts} SET ${undo.slice(7, 12)} = ${undo} WHERE seq = ${first}`,
      )
      t.equal((await verified(directory)).sound, true)
    }
    tamper(viewsFile, `UPDATE ${index}_data SET block = randomblob(100) WHERE id > 10`)
    const { sound, views } = await verified(directory)
    t.equal(sound, false)
    t.match(views.failure, /views\.db is damaged: /, 'also when the index itself is damaged')
  },
)

t.test('all events before a damaged page of the log are read', async (t) => {
  const directory = await aDirectory(t)
  const { eventsFile } = directory
  const events = await eventsIn(directory)
  const event = events.findLast(isOpening)
  if (event === undefined) throw new Error('the story is too short')
  const [place = 0] = offsetsOf(eventsFile, [event.id, event.type].join(''))
  const bytes = readFileSync(eventsFile)
  const page = bytes.readUInt16BE(16)
  bytes.fill(0xff, place - (place % page), place - (place % page) + 8)
  writeFileSync(eventsFile, bytes)
  const { log } = await verified(directory, { files: {} })
  t.ok(log.soundUpTo > 0 && log.soundUpTo < event.position)
  t.equal(log.events, log.soundUpTo)
  t.match(log.difference?.problem, `(at position ${log.soundUpTo + 1})`)
})

t.test("damage in a file's schema is reported as a broken file, not as an SQL error", async (t) => {
  const { eventsFile, viewsFile, dir } = await aDirectory(t)
  const copy = join(dir, 'copy.db')
  let broken = 0
  for (const [file, open] of [
    [eventsFile, openSqliteEventStore],
    [viewsFile, openSqliteReadStore],
  ] as const) {
    const [place = 0] = offsetsOf(
      file,
      file === eventsFile ? 'stream INTEGER NOT NULL REF' : 'name TEXT PRIMARY',
    )
    for (const [offset, bit] of [
      [0, 0],
      [1, 1],
      [2, 7],
      [5, 1],
    ] as const) {
      copyFileSync(file, copy)
      changeByte(copy, place + offset, bit)
      try {
        await open(copy).close()
      } catch (error) {
        t.match(error, { name: 'BrokenFile', file: copy })
        broken += 1
      }
    }
  }
  t.ok(broken >= 4, `${broken} of 8`)
})

t.test('one byte changed in the name of a stream is found, in the table and in the index', async (t) => {
  const directory = await aDirectory(t)
  const [middle] = inTheMiddleAndLast(await eventsIn(directory))
  const places = offsetsOf(directory.eventsFile, middle.stream)
  t.ok(places.length >= 2)
  for (const place of places) {
    changeByte(directory.eventsFile, place + middle.stream.length - 1)
    const { sound, log } = await verified(directory)
    t.equal(sound, false)
    t.type(log.difference?.problem, 'string')
    changeByte(directory.eventsFile, place + middle.stream.length - 1)
  }
})

t.test(
  'a deleted event is found: in the middle, at the end of a stream, at the end of the log',
  async (t) => {
    for (const which of ['middle', 'last', 'end', 'stream'] as const) {
      const directory = await aDirectory(t)
      const events = await eventsIn(directory)
      const [middle, last] = inTheMiddleAndLast(events)
      const end = events.at(-1)
      if (end === undefined) throw new Error('the log is empty')
      const gone = which === 'middle' ? middle : which === 'last' ? last : end
      const sql =
        which === 'stream'
          ? `DELETE FROM events WHERE stream = (SELECT id FROM streams WHERE name = '${end.stream}');
           DELETE FROM streams WHERE name = '${end.stream}'`
          : `DELETE FROM events WHERE position = ${gone.position}`
      tamper(directory.eventsFile, sql)
      const report = await verified(directory)
      t.equal(report.sound, false, which)
      const first = which === 'stream' ? events.find(({ stream }) => stream === end.stream) : gone
      t.equal(report.log.difference?.position, first?.position, which)
      t.equal(report.log.soundUpTo, (first?.position ?? 0) - 1)
    }
  },
)

t.test('a log that was cut off without traces is found: it is behind its read models', async (t) => {
  const directory = await aDirectory(t)
  const events = await eventsIn(directory)
  const end = events.at(-1)
  if (end === undefined) throw new Error('the log is empty')
  const [before] = events.filter(({ stream }) => stream === end.stream).slice(-2)
  tamper(
    directory.eventsFile,
    `DELETE FROM events WHERE position = ${end.position};
     UPDATE sqlite_sequence SET seq = seq - 1;
     UPDATE streams SET revision = revision - 1, hash = '${before?.metadata.hash}' WHERE name = '${end.stream}'`,
  )
  const report = await verified(directory)
  t.match(report.log.difference, { problem: /the log ends at position \d+, but the read model/ })
  t.equal(report.log.events, events.length - 1)
})

t.test('two swapped events are found', async (t) => {
  const directory = await aDirectory(t)
  const events = await eventsIn(directory)
  const [middle] = inTheMiddleAndLast(events)
  const next = events.find(({ stream, revision }) => stream === middle.stream && revision > middle.revision)
  if (next === undefined) throw new Error('the story is too short')
  const columns = ['id', 'type', 'data', 'metadata']
  const [one, two] = [middle.position, next.position]
  const taken = columns.map(
    (column) =>
      `${column} = (SELECT ${column} FROM other WHERE other.position = ${one} + ${two} - events.position)`,
  )
  tamper(
    directory.eventsFile,
    `CREATE TEMP TABLE other AS SELECT * FROM events WHERE position IN (${one}, ${two});
     UPDATE events SET id = id || '-' WHERE position IN (${one}, ${two});
     UPDATE events SET ${taken.join(', ')} WHERE position IN (${one}, ${two})`,
  )
  names(t, await verified(directory), events, middle)
})

t.test('an event that was changed together with its hash does not fit the next event', async (t) => {
  const directory = await aDirectory(t)
  const events = await eventsIn(directory)
  const [middle] = inTheMiddleAndLast(events)
  const next = events.find(({ stream, revision }) => stream === middle.stream && revision > middle.revision)
  if (next === undefined) throw new Error('the story is too short')
  const { hash: _, previous: __, ...metadata } = middle.metadata
  tamper(
    directory.eventsFile,
    `UPDATE events SET metadata = '${JSON.stringify({ ...metadata, at: '2020-01-01T00:00:00.000Z' })}'
     WHERE position = ${middle.position}`,
  )
  names(t, await verified(directory), events, middle)
})

t.test('a changed, an added and a missing document are named', async (t) => {
  const directory = await aDirectory(t)
  const { viewsFile } = directory
  const cases = [
    [
      `UPDATE doc_issues SET body = json_set(body, '$.title', 'Another') WHERE id = '1.6'`,
      `UPDATE doc_issues SET body = json_set(body, '$.title', (SELECT body FROM kept)) WHERE id = '1.6'`,
      { collection: 'issues', id: '1.6', kind: 'different', field: 'title', stored: '"Another"' },
    ],
    [
      `INSERT INTO doc_issues SELECT '9.9', position, body FROM doc_issues WHERE id = '1.6'`,
      `DELETE FROM doc_issues WHERE id = '9.9'`,
      { collection: 'issues', id: '9.9', kind: 'extra' },
    ],
    [
      `UPDATE doc_issues SET position = position + 1 WHERE id = '1.6'`,
      `UPDATE doc_issues SET position = position - 1 WHERE id = '1.6'`,
      { collection: 'issues', id: '1.6', kind: 'different', field: 'position' },
    ],
    [`DELETE FROM doc_issues WHERE id = '1.6'`, '', { collection: 'issues', id: '1.6', kind: 'missing' }],
  ] as const
  tamper(
    viewsFile,
    `CREATE TABLE kept AS SELECT json_extract(body, '$.title') AS body FROM doc_issues WHERE id = '1.6'`,
  )
  for (const [change, undo, expected] of cases) {
    tamper(viewsFile, change)
    const report = await verified(directory)
    t.equal(report.sound, false)
    t.match(report.views.difference, expected)
    t.match(
      report.views.models.find(({ name }) => name === 'issues'),
      { state: 'different' },
    )
    t.equal(report.log.difference, undefined, 'the log is sound')
    if (undo !== '') tamper(viewsFile, undo)
  }
})

t.test('one byte that makes a document unreadable is a failure with its place, not a crash', async (t) => {
  const directory = await aDirectory(t)
  const store = openSqliteReadStore(directory.viewsFile)
  const [document] = await store.range({ name: 'issue_texts', indexes: [], arrays: [] }, { limit: 1 })
  await store.close()
  const [place] = offsetsOf(directory.viewsFile, JSON.stringify(document?.body))
  changeByte(directory.viewsFile, place ?? 0)
  const report = await verified(directory, { files: {} })
  t.equal(report.sound, false)
  t.match(report.views.failure, /views\.db is broken: .*issue_texts/)
})

t.test(
  'a damaged page of the read models is a failure, after the log has been checked to its end',
  async (t) => {
    const directory = await aDirectory(t)
    const events = await eventsIn(directory)
    const store = openSqliteReadStore(directory.viewsFile)
    const [document] = await store.range({ name: 'history', indexes: [], arrays: [] }, { limit: 1 })
    await store.close()
    const [place = 0] = offsetsOf(directory.viewsFile, document?.text ?? '')
    const bytes = readFileSync(directory.viewsFile)
    const page = bytes.readUInt16BE(16)
    bytes.fill(0xff, place - (place % page), place - (place % page) + 8)
    writeFileSync(directory.viewsFile, bytes)
    for (const files of [{}, undefined]) {
      const { sound, log, views } = await verified(directory, files && { files })
      t.equal(sound, false)
      t.equal(log.difference, undefined)
      t.equal(log.soundUpTo, events.at(-1)?.position)
      t.match(views.failure, /views\.db is broken: .*\(documents of history/)
    }
  },
)

t.test(
  'read models that this version has not built are not compared; those that lag behind are',
  async (t) => {
    const directory = await aDirectory(t)
    const { viewsFile } = directory
    tamper(viewsFile, `UPDATE checkpoints SET version = 999 WHERE name = 'labels'; DELETE FROM doc_labels`)
    const other = await verified(directory)
    t.equal(other.sound, true)
    t.match(
      other.views.models.find(({ name }) => name === 'labels'),
      { state: 'not compared' },
    )
    tamper(
      viewsFile,
      `UPDATE checkpoints SET position = 0 WHERE name = 'issues';
     DELETE FROM doc_issues; DELETE FROM arr_issues`,
    )
    const behind = await verified(directory)
    t.equal(behind.sound, true)
    t.match(
      behind.views.models.find(({ name }) => name === 'issues'),
      { state: 'same', position: 0 },
    )
  },
)

t.test('an abort ends verify, and no temporary files are left', async (t) => {
  const directory = await aDirectory(t)
  // SQLite removes these beside a database when its last connection closes.
  const names = () => readdirSync(directory.dir).filter((name) => !/-(shm|wal)$/.test(name))
  const files = names()
  await t.rejects(verified(directory, { signal: AbortSignal.abort() }), { name: 'AbortError' })
  t.strictSame(names(), files)
})

t.test('reading a broken event always gives an error with file, position, stream and revision', async (t) => {
  const directory = await aDirectory(t)
  const { eventsFile } = directory
  const [{ position, stream, revision }] = inTheMiddleAndLast(await eventsIn(directory))
  for (const change of [
    `metadata = '{"actor":null}'`,
    `data = '[' || data`,
    `data = CAST(data AS BLOB)`,
    `metadata = '17'`,
  ]) {
    tamper(eventsFile, `UPDATE events SET ${change} WHERE position = ${position}`)
    const store = openSqliteEventStore(eventsFile)
    const reads = [store.readAll(), store.readStream(stream), store.readPositions([position])]
    for (const read of reads) {
      await t.rejects(all(read), { name: 'BrokenEvent', file: eventsFile, position, stream, revision })
    }
    await store.close()
    t.match((await verified(directory)).log.difference, { position, stream, revision })
  }
})

t.test('an append is refused only for a stream whose last event is broken', async (t) => {
  const directory = await aDirectory(t)
  const [, last] = inTheMiddleAndLast(await eventsIn(directory))
  tamper(
    directory.eventsFile,
    `UPDATE events SET metadata = '' WHERE position = ${last.position}; UPDATE streams SET hash = NULL`,
  )
  const store = openSqliteEventStore(directory.eventsFile)
  const appends = [
    store.append(last.stream, [newEvent()], 'any'),
    store.append('another', [newEvent()], 'any'),
  ]
  const [refused, other] = await Promise.allSettled(appends)
  t.match(refused, { status: 'rejected', reason: BrokenEvent })
  t.match(other, { status: 'fulfilled' })
  await store.close()
})

t.test(
  'opening a file that is not a database, or that was cut off, gives an error with its name',
  async (t) => {
    const { dir, eventsFile } = await aDirectory(t)
    tamper(eventsFile, 'PRAGMA wal_checkpoint(TRUNCATE)')
    const [cut, foreign] = [join(dir, 'cut.db'), join(dir, 'foreign.db')]
    copyFileSync(eventsFile, cut)
    truncateSync(cut, 20_000)
    t.throws(() => openSqliteEventStore(cut), BrokenFile)
    t.throws(() => openSqliteEventStore(cut), { file: cut, message: /cut\.db is broken: / })
    writeFileSync(foreign, 'Dear diary, '.repeat(1000))
    t.throws(() => openSqliteReadStore(foreign), { name: 'BrokenFile', file: foreign })
  },
)

/** Written until verify has long begun; more would only take longer. */
const MOST_WRITTEN = 300

t.test(
  'verify may run while a server writes, on embedded stores and on EventStoreDB with MongoDB',
  async (t) => {
    for (const kind of ['embedded', 'distributed'] as const) {
      const { events, readStore, dir } = await storesOf(t, kind)
      const author = { id: 1, login: 'alice' }
      const seed = (name: string) =>
        seedEvents(events, {
          owner: { ...author, kind: 'user' },
          author,
          repositories: [{ name, issues: 4, pulls: 2 }],
        })
      const projector = createProjector({
        log: pino({ level: 'silent' }),
        events,
        views: readStore,
        models: READ_MODELS,
      })
      await projector.start()
      await seed('before')
      await projector.waitFor(await events.lastPosition(), 60_000)
      let running = true
      const writing = (async () => {
        for (let n = 0; running && n < MOST_WRITTEN; n++) {
          await events.append('busy', [busyEvent(n)], 'any')
        }
      })()
      const report = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
      running = false
      await writing
      t.match(report, { sound: true }, kind)
      if (!report.sound) t.comment(JSON.stringify(report, null, 1))
      t.ok(report.views.models.every(({ state }) => state === 'same'))
      await projector.stop()
      // A real difference is still found.
      const [issue] = await readStore.range(bareIssues, { limit: 1 })
      if (issue === undefined) throw new Error('there is no issue')
      const body = { ...issue.body, title: 'Another' }
      await readStore.apply([{ ...issue, op: 'put', collection: bareIssues, body }], new Map())
      const other = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
      t.match(other.views.difference, {
        collection: 'issues',
        id: issue.id,
        field: 'title',
        kind: 'different',
      })
    }
  },
)

t.test('verify fails for a read model that does not reach the end of the log, and names it', async (t) => {
  const directory = await aDirectory(t)
  const events = openSqliteEventStore(directory.eventsFile)
  const poison = { ...newEvent({ repoId: 1, index: 1, body: 7 }, 'BodyChanged') }
  poison.metadata.schema = 1
  const { position } = await events.append('issue-1.1', [poison], 'any')
  await events.close()
  const report = await verified(directory)
  t.equal(report.sound, false)
  t.match(
    report.views.failure,
    new RegExp(`cannot reach the end of the log.*event ${position} .*data/body must be string`),
  )
})

for (const how of ['deleted', 'tombstoned', 'cut'] as const) {
  t.test(`verify names ${how === 'cut' ? '$maxCount-cut' : how} streams`, async (t) => {
    const { events, readStore, dir, url } = await storesOf(t, 'distributed')
    if (url === undefined) throw new Error('the store has no server')
    const changes = [1, 2, 3].map(busyEvent)
    await events.append('repo-1', changes, 'no-stream')
    await events.append(
      'repo-2',
      changes.map(({ id: _, ...event }) => newEvent(event.data, event.type)),
      'no-stream',
    )
    t.match(await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir }), { sound: true })
    const client = EventStoreDBClient.connectionString(url)
    if (how === 'deleted') await client.deleteStream('repo-1')
    else if (how === 'tombstoned') await client.tombstoneStream('repo-1')
    else await client.setStreamMetadata('repo-1', { maxCount: 1 })
    await client.dispose()
    const { sound, log } = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
    t.equal(sound, false)
    const problem = { deleted: /is deleted/, tombstoned: /tombstone/, cut: /revisions 0 to 1 are cut off/ }[
      how
    ]
    const repair = how === 'tombstoned' ? /"mergelog import" into a new/ : /\(\$\$repo-1\) without \$maxCount/
    t.match(log.lost, [{ stream: 'repo-1', problem, repair }])
    t.equal(log.lost?.length, 1, 'and no other')
  })
}

t.test(
  "verify names stream and revision of foreign events in Mergelog's streams, and reports the log as sound",
  async (t) => {
    const { events, readStore, dir, url } = await storesOf(t, 'distributed')
    if (url === undefined) throw new Error('the store has no server')
    await events.append('repo-1', [busyEvent(1)], 'no-stream')
    const client = EventStoreDBClient.connectionString(url)
    await client.appendToStream('repo-1', jsonEvent({ type: 'Foreign', data: { of: 'others' } }))
    await client.dispose()
    await events.append('repo-1', [busyEvent(2)], 'any')
    const report = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
    t.match(report, { sound: true, log: { events: 2, others: [{ stream: 'repo-1', revision: 1 }] } })
    t.notOk(report.log.lost)
  },
)

for (const writer of ['the same server', 'another server'] as const) {
  t.test(`verify names a deleted stream that ${writer} wrote again: its link is not broken`, async (t) => {
    const { events, readStore, dir, url } = await storesOf(t, 'distributed')
    if (url === undefined) throw new Error('the store has no server')
    const client = EventStoreDBClient.connectionString(url)
    t.teardown(() => client.dispose())
    const other = openEventStoreDb(url)
    t.teardown(() => other.close())
    const again = writer === 'the same server' ? events : other
    await events.append('repo-1', [busyEvent(1), busyEvent(2)], 'no-stream')
    await events.append('label-1', [busyEvent(1)], 'no-stream')
    await client.deleteStream('repo-1')
    t.equal((await again.append('repo-1', [busyEvent(3), busyEvent(4)], 'any')).revision, 3)
    await again.append('repo-1', [busyEvent(5)], 'any')
    const { sound, log } = await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })
    t.equal(sound, false, 'what was deleted is lost')
    t.notOk(log.difference, 'all hashes are sound')
    t.equal(log.events, 6)
    const problem =
      writer === 'the same server'
        ? /revisions 0 to 1 are cut off/
        : /deleted in EventStoreDB, and written again from revision 2/
    t.match(log.lost, [{ stream: 'repo-1', problem }])
    t.equal(log.lost?.length, 1, 'and no other')

    // Events after the deletion are hashed as before.
    const last = (await all(client.readStream('repo-1'))).at(-1)?.event
    await client.appendToStream(
      'repo-1',
      jsonEvent({ type: 'RepositoryEdited', data: { of: 'no link' }, metadata: last?.metadata }),
    )
    t.match(
      (await verifyServer({ events, readStore, models: READ_MODELS, scratchDir: dir })).log.difference,
      { stream: 'repo-1', revision: 5, problem: /hash does not match/ },
    )
  })
}

const damages = {
  'a member of its metadata is spoilt': ({ data, metadata }) => ({
    data,
    metadata: metadata.replace('"at"', '"a!"'),
  }),
  'its metadata is no JSON': ({ data, metadata }) => ({ data, metadata: `${metadata.slice(0, -1)}\u0000` }),
  'its data is no JSON': ({ data, metadata }) => ({ data: data.slice(1), metadata }),
} satisfies Record<string, (event: { data: string; metadata: string }) => { data: string; metadata: string }>

for (const [what, damage] of Object.entries(damages)) {
  t.test(
    `a damaged last event does not look like a foreign one: verify and commands name stream and revision when ${what}`,
    async (t) => {
      const { events, append, verify } = await oneDouble(t)
      await events.append('repo-1', [busyEvent(1)], 'no-stream')
      t.match(await verify(), { sound: true })
      const { data, metadata } = busyEvent(2)
      const damaged = damage({ data: JSON.stringify(data), metadata: JSON.stringify(metadata) })
      await append('repo-1', [{ type: 'RepositoryEdited', ...damaged }])
      const { sound, log } = await verify()
      t.equal(sound, false)
      const problem = 'the event is damaged: it has our metadata, but cannot be read'
      t.match(log, { events: 1, difference: { stream: 'repo-1', revision: 1, problem } })
      t.notOk(log.others, 'it is not named as an event of another application')
      const again = openEventStoreDb(events.url)
      t.teardown(() => again.close())
      const message = 'event 1 of stream repo-1 is damaged: it has our metadata, but cannot be read'
      await t.rejects(all(again.readStream('repo-1')), { name: 'StreamUnusable', message })
      await t.rejects(again.append('repo-1', [busyEvent(3)], 'any'), { name: 'StreamUnusable', message })
      await t.rejects(again.append('repo-1', [busyEvent(3)], 0), { name: 'WrongExpectedRevision' })
      t.strictSame(again.problems?.().others, [])
    },
  )
}

t.test("a last event without any of Mergelog's metadata is named by its type", async (t) => {
  const { events, append, verify } = await oneDouble(t)
  await events.append('repo-1', [busyEvent(1)], 'no-stream')
  const theirs = '{"$correlationId":"a","$causationId":"b","schema":1}'
  await append('repo-1', [{ type: 'Order', data: '{}', metadata: theirs }])
  await append('orders-1', [{ type: 'RepositoryEdited', data: '{}' }])
  t.match(await verify(), {
    sound: true,
    log: {
      events: 1,
      others: [
        { stream: 'repo-1', revision: 1 },
        { stream: 'orders-1', revision: 0 },
      ],
    },
  })
  await append('repo-1', [{ type: 'RepositoryEdited', data: '{}', metadata: 'damaged' }])
  t.match((await verify()).log.lost, [
    {
      stream: 'repo-1',
      revision: 2,
      problem: /damaged, or another application wrote it: its type RepositoryEdited is ours/,
    },
  ])
})

t.test('verify names a foreign event that looks like one of Mergelog, and continues after it', async (t) => {
  const { events, append, verify } = await oneDouble(t)
  const theirs = JSON.stringify({ actor: 'b', at: 1, correlationId: 'c', causationId: 'd' })
  await append('orders-1', [{ type: 'OrderPlaced', data: '{}', metadata: theirs }])
  await events.append('repo-1', [busyEvent(1)], 'no-stream')
  await append('repo-1', [{ type: 'RepositoryEdited', data: '{}', metadata: '{}' }])
  await events.append('repo-2', [busyEvent(1)], 'no-stream')
  const problem = /damaged, or another application wrote it: its type RepositoryEdited is ours/
  t.match(
    await verify(),
    { sound: false, log: { events: 2, lost: [{ stream: 'repo-1', revision: 1, problem }] } },
    'nobody can say what a last event was, but the rest is checked',
  )
  await events.append('repo-1', [busyEvent(2)], 'any')
  const { sound, log } = await verify()
  t.equal(sound, true, 'the next event shows that none of ours is missing')
  t.equal(log.events, 3)
  t.same(log.others, [
    { stream: 'orders-1', revision: 0 },
    { stream: 'repo-1', revision: 1 },
  ])
})

/** A log on a double, without read models. */
async function oneDouble(t: Test) {
  const dir = t.testdir()
  const double = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  const events = openEventStoreDb(double.url)
  t.teardown(async () => {
    await events.close()
    await double.close()
  })
  return {
    events: { ...events, url: double.url },
    append: double.append,
    verify: () => verifyServer({ events, models: [], scratchDir: dir }),
  }
}

const bareIssues = { name: 'issues', indexes: [], arrays: [] }

/** An event that changes a repository's description. */
function busyEvent(n: number): NewEvent {
  const data = { repoId: 1, changes: { description: `number ${n}` } }
  return newEvent(data, 'RepositoryEdited')
}

async function storesOf(t: Test, kind: 'embedded' | 'distributed') {
  const dir = join(t.testdirName, kind)
  mkdirSync(dir, { recursive: true })
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  if (kind === 'embedded') {
    const events = openSqliteEventStore(join(dir, 'events.db'))
    const readStore = openSqliteReadStore(join(dir, 'views.db'))
    t.teardown(() => Promise.all([events.close(), readStore.close()]))
    return { dir, events, readStore, url: undefined }
  }
  const eventStore = await startEventStoreDouble({ port: 0, file: join(dir, 'eventstore.db') })
  const mongo = await startMongoDouble({ port: 0, file: join(dir, 'mongo.db') })
  const events = openEventStoreDb(eventStoreWithLongTimeouts(eventStore))
  const readStore = openMongoReadStore(mongoWithLongTimeouts(mongo))
  t.teardown(async () => {
    await Promise.all([events.close(), readStore.close()])
    await Promise.all([eventStore.close(), mongo.close()])
  })
  return { dir, events, readStore, url: eventStore.url }
}
