import { join } from 'node:path'
import t from 'tap'
import { openSqliteReadStore } from '../../src/projections/sqlite.ts'
import { cards, readStoreContract } from './read-store-contract.ts'

readStoreContract(t, (t) => {
  const file = join(t.testdir(), 'views.db')
  return () => openSqliteReadStore(file)
})
void cards
