import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { BSON, MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { program } from '../program.ts'
import { startMongoDouble } from './mongodb.ts'

interface Thing {
  _id: number | string
  name?: string | null
  size?: number
  tags?: string[]
  inner?: { a?: number; b?: string }
}

async function clientOf(t: Test) {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  const client = new MongoClient(double.url)
  t.teardown(() => client.close())
  return { double, client, db: client.db('test'), things: client.db('test').collection<Thing>('things') }
}

const ids = (found: { _id: unknown }[]) => found.map(({ _id }) => _id)

t.test('a client gets the answer and version of a standalone server', async (t) => {
  const { db } = await clientOf(t)
  t.match(await db.command({ hello: 1 }), { isWritablePrimary: true, maxWireVersion: 21, ok: 1 })
  t.match(await db.command({ ping: 1 }), { ok: 1 })
  t.match(await db.admin().buildInfo(), { version: '7.0.0' })
})

t.test('an unsupported feature gives an error with its name', async (t) => {
  const { db, things } = await clientOf(t)
  await t.rejects(db.command({ collStats: 'things' }), {
    code: 59,
    codeName: 'CommandNotFound',
    message: /'collStats' is not supported by the double/,
  })
  await t.rejects(db.command({ constructor: 1 }), { code: 59 })
  await things.insertOne({ _id: 1 })
  const refused = async (asked: Promise<unknown>) => {
    await t.rejects(asked, { message: /is not supported by the double/ })
  }
  await refused(things.find({ $where: 'true' }).toArray())
  await refused(things.find({ size: { $mod: [2, 0] } }).toArray())
  await refused(things.find({}, { collation: { locale: 'de' } }).toArray())
  await refused(things.updateOne({ _id: 1 }, { $push: { tags: 'x' } }))
  await refused(things.aggregate([{ $graphLookup: {} }]).toArray())
  await refused(things.aggregate([{ $project: { size: { $strLenCP: '$name' } } }]).toArray())
  await refused(things.createIndex({ name: 'text' }))
  await refused(things.createIndex({ name: 1 }, { expireAfterSeconds: 1 }))
})

t.test('find: filters, sort, skip, limit and projection', async (t) => {
  const { things } = await clientOf(t)
  await things.insertMany([
    { _id: 1, name: 'one', size: 1, tags: ['a', 'b'], inner: { a: 1, b: 'x' } },
    { _id: 2, name: 'two', size: 2.5, tags: ['b'], inner: { a: 2 } },
    { _id: 3, name: null, size: 10, tags: [] },
    { _id: 4, size: 2 ** 40 },
  ])
  const find = async (filter: object) => ids(await things.find(filter).toArray())
  t.strictSame(await find({ size: { $gt: 1, $lte: 10 } }), [2, 3])
  t.strictSame(await find({ name: null }), [3, 4])
  t.strictSame(await find({ name: { $exists: true } }), [1, 2, 3])
  t.strictSame(await find({ name: { $exists: false } }), [4])
  t.strictSame(await find({ name: { $ne: 'one' } }), [2, 3, 4])
  t.strictSame(await find({ $or: [{ size: 1 }, { $and: [{ tags: 'b' }, { 'inner.a': 2 }] }] }), [1, 2])
  t.strictSame(await find({ tags: ['a', 'b'] }), [1], 'an array can equal as a whole, too')
  t.strictSame(await find({ tags: [] }), [3])
  t.strictSame(await find({ name: /^T/i }), [2])
  t.strictSame(await find({ name: { $in: [/^o/, 'two'] } }), [1, 2])
  t.strictSame(await find({ _id: { $in: [4, 1, 4, 9] } }), [4, 1])
  t.strictSame(await find({ inner: { a: 1, b: 'x' } }), [1])
  t.strictSame(await find({ inner: { b: 'x', a: 1 } }), [], 'the order of fields counts')
  const sorted = things.find({}).sort({ name: 1, size: -1 }).skip(1).limit(2)
  t.strictSame(ids(await sorted.toArray()), [3, 1])
  t.strictSame(await things.findOne({ _id: 1 }, { projection: { 'inner.a': 1, size: 1 } }), {
    _id: 1,
    size: 1,
    inner: { a: 1 },
  })
  t.strictSame(await things.findOne({ _id: 1 }, { projection: { _id: 0, name: 1 } }), { name: 'one' })
  t.strictSame(await things.findOne({ _id: 2 }, { projection: { tags: 0, 'inner.a': 0 } }), {
    _id: 2,
    name: 'two',
    size: 2.5,
    inner: {},
  })
})

t.test('values keep their BSON types', async (t) => {
  const { db } = await clientOf(t)
  const typed = db.collection('typed', { promoteValues: false })
  const values = {
    int: new BSON.Int32(5),
    double: new BSON.Double(5),
    long: BSON.Long.fromString('9007199254740993'),
    decimal: BSON.Decimal128.fromString('1.10'),
    date: new Date(0),
    objectId: new BSON.ObjectId(),
    stamp: new BSON.Timestamp({ t: 1, i: 2 }),
    binary: new BSON.Binary(Buffer.from([1, 2, 3])),
  }
  await typed.insertOne({ _id: new BSON.ObjectId(), ...values })
  const found = await typed.findOne({ int: 5, double: 5 }, { projection: { _id: 0 } })
  t.equal(BSON.EJSON.stringify(found, { relaxed: false }), BSON.EJSON.stringify(values, { relaxed: false }))
  t.equal(await typed.countDocuments({ long: BSON.Long.fromString('9007199254740992') }), 0)
})

t.test(
  'a result larger than a batch is read through its cursor; a killed cursor does not exist',
  async (t) => {
    const { db, things } = await clientOf(t)
    await things.insertMany(Array.from({ length: 200 }, (_, _id) => ({ _id, name: 'x'.repeat(100_000) })))
    t.equal((await things.find({}).batchSize(7).limit(100).toArray()).length, 100)
    t.equal(
      (await things.find({}).toArray()).length,
      200,
      'also when the size of batches is limited by bytes',
    )
    const { cursor } = await db.command({ find: 'things', batchSize: 2 })
    t.equal(cursor.firstBatch.length, 2)
    const id = BSON.Long.fromNumber(cursor.id)
    const next = await db.command({ getMore: id, collection: 'things', batchSize: 3 })
    t.strictSame(ids(next.cursor.nextBatch), [2, 3, 4])
    t.match(await db.command({ killCursors: 'things', cursors: [id] }), { cursorsNotFound: [] })
    await t.rejects(db.command({ getMore: id, collection: 'things' }), { code: 43 })
  },
)

t.test('updates: replace, $set, $unset, $setOnInsert, $inc, upsert, many', async (t) => {
  const { db, things } = await clientOf(t)
  const upsert = await things.updateOne(
    { _id: 1, name: 'one' },
    { $set: { 'inner.a': 1 }, $setOnInsert: { size: 7 } },
    { upsert: true },
  )
  t.match(upsert, { matchedCount: 0, upsertedCount: 1, upsertedId: 1 })
  t.strictSame(await things.findOne({}), { _id: 1, name: 'one', inner: { a: 1 }, size: 7 })
  const set = { $set: { 'inner.b': 'x' }, $setOnInsert: { size: 9 }, $inc: { 'inner.a': 2, size: 0.5 } }
  t.match(await things.updateOne({ _id: 1 }, set, { upsert: true }), { matchedCount: 1, modifiedCount: 1 })
  t.strictSame(await things.findOne({}), { _id: 1, name: 'one', inner: { a: 3, b: 'x' }, size: 7.5 })
  t.match(await things.updateOne({ _id: 1 }, { $set: { name: 'one' } }), {
    matchedCount: 1,
    modifiedCount: 0,
  })
  t.match(await things.updateOne({ _id: 1 }, { $unset: { inner: '', none: '' } }), { modifiedCount: 1 })
  t.strictSame(await things.findOne({}), { _id: 1, name: 'one', size: 7.5 })
  await things.replaceOne({ _id: 1 }, { name: 'new' })
  t.strictSame(await things.findOne({}), { _id: 1, name: 'new' })
  await things.insertMany([{ _id: 2 }, { _id: 3 }])
  t.match(await things.updateMany({ _id: { $gt: 1 } }, { $inc: { size: 1 } }), { modifiedCount: 2 })
  t.equal(await things.countDocuments({ size: 1 }), 2)
  // The driver's types would refuse these updates.
  const untyped = db.collection('things')
  await t.rejects(untyped.updateOne({ name: 'new' }, { $set: { _id: 9 } }), { code: 66 })
  await t.rejects(untyped.updateOne({ name: 'new' }, { $inc: { name: 1 } }), { code: 14 })
  t.match(await things.deleteMany({ size: 1 }), { deletedCount: 2 })
  t.match(await things.deleteOne({}), { deletedCount: 1 })
})

t.test('findAndModify gives the document before or after, or removes it', async (t) => {
  const { things } = await clientOf(t)
  await things.insertMany([
    { _id: 1, size: 1 },
    { _id: 2, size: 2 },
  ])
  const largest = { sort: { size: -1 } } as const
  t.strictSame(await things.findOneAndUpdate({}, { $inc: { size: 5 } }, largest), { _id: 2, size: 2 })
  t.strictSame(
    await things.findOneAndUpdate(
      { _id: 9 },
      { $set: { size: 9 } },
      { upsert: true, returnDocument: 'after' },
    ),
    { _id: 9, size: 9 },
  )
  t.strictSame(await things.findOneAndReplace({ _id: 1 }, { name: 'x' }, { returnDocument: 'after' }), {
    _id: 1,
    name: 'x',
  })
  t.strictSame(await things.findOneAndDelete({ size: 7 }), { _id: 2, size: 7 })
  t.equal(await things.findOneAndDelete({ size: 7 }), null)
})

t.test('a duplicate of a unique key is refused with code 11000', async (t) => {
  const { things } = await clientOf(t)
  await things.createIndex({ name: 1, size: 1 }, { unique: true })
  await things.insertMany([
    { _id: 1, name: 'a', size: 1 },
    { _id: 2, name: 'a', size: 2 },
    { _id: 3, name: 'b' },
  ])
  await t.rejects(things.insertOne({ _id: 1 }), { code: 11000, keyPattern: { _id: 1 } })
  await t.rejects(things.insertOne({ _id: 4, name: 'a', size: 1 }), {
    code: 11000,
    keyPattern: { name: 1, size: 1 },
    keyValue: { name: 'a', size: 1 },
  })
  await t.rejects(things.insertOne({ _id: 4, name: 'b' }), { code: 11000 }, 'a missing field is null')
  await t.rejects(things.updateOne({ _id: 2 }, { $set: { size: 1 } }), { code: 11000 })
  await things.deleteOne({ _id: 1 })
  await things.updateOne({ _id: 2 }, { $set: { size: 1 } })
  const mixed = things.insertMany([{ _id: 5 }, { _id: 2 }, { _id: 6, name: 'z' }], { ordered: false })
  await t.rejects(mixed, { code: 11000, insertedCount: 2 })
  t.strictSame(ids(await things.find({}).toArray()), [2, 3, 5, 6], 'unordered: the others are inserted')
  const ordered = things.insertMany([{ _id: 7, name: 'y' }, { _id: 2 }, { _id: 8, name: 'w' }])
  await t.rejects(ordered, { code: 11000, insertedCount: 1 })
  t.equal(await things.countDocuments({ _id: 8 }), 0, 'ordered: nothing after the first error')
  await things.updateOne({ _id: 3 }, { $set: { name: 'same' } })
  await things.updateOne({ _id: 6 }, { $set: { name: 'same', size: 1 } })
  await t.rejects(things.createIndex({ name: 1 }, { unique: true }), { code: 11000 })
})

t.test('counts, distinct values and groups', async (t) => {
  const { things } = await clientOf(t)
  await things.insertMany([
    { _id: 1, name: 'a', size: 1, tags: ['x', 'y'] },
    { _id: 2, name: 'a', size: 2, tags: ['y'] },
    { _id: 3, name: 'b', size: 3 },
  ])
  t.equal(await things.countDocuments({ size: { $gt: 1 } }), 2)
  t.equal(await things.countDocuments({}, { skip: 1, limit: 1 }), 1)
  t.equal(await things.countDocuments({ size: 99 }), 0)
  t.equal(await things.estimatedDocumentCount(), 3)
  t.strictSame(await things.distinct('tags'), ['x', 'y'])
  t.strictSame(await things.distinct('name', { size: { $lt: 3 } }), ['a'])
  const groups = things.aggregate([
    { $group: { _id: '$name', n: { $sum: 1 }, total: { $sum: '$size' } } },
    { $sort: { _id: -1 } },
  ])
  t.strictSame(await groups.toArray(), [
    { _id: 'b', n: 1, total: 3 },
    { _id: 'a', n: 2, total: 3 },
  ])
})

t.test('databases, collections and indexes can be listed, renamed and dropped', async (t) => {
  const { client, db, things } = await clientOf(t)
  await things.createIndexes([
    { key: { name: 1 }, name: 'by_name' },
    { key: { size: -1, name: 1 }, name: 'by_size' },
  ])
  await things.createIndex({ name: 1 }, { name: 'by_name' })
  await t.rejects(things.createIndex({ name: 1 }, { name: 'other' }), { code: 85 })
  await t.rejects(things.createIndex({ size: 1 }, { name: 'by_name' }), { code: 86 })
  t.strictSame(
    (await things.indexes()).map(({ name }) => name),
    ['_id_', 'by_name', 'by_size'],
  )
  await things.dropIndex('by_name')
  await t.rejects(things.dropIndex('by_name'), { code: 27 })
  await t.rejects(db.collection('none').indexes(), { code: 26 })
  await db.createCollection('empty')
  await t.rejects(db.createCollection('empty'), { code: 48 })
  await things.insertOne({ _id: 1 })
  await t.rejects(things.rename('empty'), { code: 48 })
  await things.rename('empty', { dropTarget: true })
  t.strictSame(
    (await db.listCollections({}, { nameOnly: true }).toArray()).map(({ name }) => name),
    ['empty'],
  )
  t.strictSame(await db.collection('empty').find().toArray(), [{ _id: 1 }])
  t.match(await db.admin().listDatabases(), { databases: [{ name: 'test', empty: false }] })
  t.equal(await db.collection('empty').drop(), true)
  await client.db('other').collection('c').insertOne({})
  await client.db('other').dropDatabase()
  t.strictSame((await db.admin().listDatabases()).databases, [])
})

t.test('bytes that are not a message end their connection and no other', async (t) => {
  const { double, things } = await clientOf(t)
  await things.insertOne({ _id: 1 })
  const length = (n: number) => {
    const bytes = Buffer.alloc(32)
    bytes.writeInt32LE(n)
    bytes.writeInt32LE(2013, 12)
    return bytes
  }
  for (const bytes of [
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    length(-1),
    length(32),
    length(2 ** 30),
  ]) {
    const socket = connect(double.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.resume()
    socket.write(bytes)
    await once(socket, 'close')
  }
  t.equal(await things.countDocuments({}), 1)
})

t.test(
  'started alone, the double prints its URL, keeps acknowledged writes, and exits 0 on SIGTERM',
  async (t) => {
    const data = join(t.testdir(), 'data')
    const first = await startAlone(t, data)
    const client = new MongoClient(first.url)
    const things = client.db('test').collection<Thing>('things')
    await things.createIndex({ name: 1 }, { unique: true })
    let acknowledged = 0
    const writing = (async () => {
      for (let _id = 0; ; _id++) {
        await things.insertOne({ _id, name: `n${_id}` })
        acknowledged = _id + 1
        if (acknowledged === 20) first.process.kill('SIGKILL')
      }
    })()
    await t.rejects(writing)
    await client.close()

    const second = await startAlone(t, data)
    const again = new MongoClient(second.url)
    t.teardown(() => again.close())
    const kept = again.db('test').collection<Thing>('things')
    t.ok(acknowledged >= 20)
    t.ok((await kept.countDocuments({})) >= acknowledged)
    t.equal((await kept.findOne({ _id: 0 }))?.name, 'n0')
    await t.rejects(kept.insertOne({ _id: 'x', name: 'n0' }), { code: 11000 }, 'with its unique indexes')
    second.process.kill('SIGTERM')
    t.strictSame(await once(second.process, 'exit'), [0, null])
  },
)

async function startAlone(t: Test, data: string): Promise<{ process: ChildProcess; url: string }> {
  const args = [program('test/doubles/mongodb'), '--port', '0', '--data', data]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [url] = await once(createInterface({ input: child.stdout }), 'line')
  return { process: child, url: String(url) }
}
