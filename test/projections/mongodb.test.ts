import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import t from 'tap'
import { openMongoReadStore } from '../../src/projections/mongodb.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'
import { readStoreContract } from './read-store-contract.ts'

const realServer = process.env.TEST_MONGODB_URL

t.test('against the double', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  readStoreContract(t, () => storesOf(double.url))
})

t.test(
  'against a real server',
  { skip: realServer === undefined && 'TEST_MONGODB_URL names no server' },
  async (t) => {
    const url = realServer ?? ''
    readStoreContract(t, (t) => {
      const database = newDatabase()
      t.teardown(() => dropDatabase(url, database))
      return () => openMongoReadStore(url, { database })
    })
  },
)

const newDatabase = () => `mergelog_test_${randomUUID().replaceAll('-', '')}`

function storesOf(url: string) {
  const database = newDatabase()
  return () => openMongoReadStore(url, { database })
}

async function dropDatabase(url: string, database: string): Promise<void> {
  const client = new MongoClient(url)
  await client.db(database).dropDatabase()
  await client.close()
}
