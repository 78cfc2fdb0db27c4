/** Writes documents until it is killed, and a line after each batch: `node sqlite-writer.ts FILE`. */
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { cards, put } from './read-store-contract.ts'

const store = openSqliteReadStore(process.argv[2] ?? '')
await store.prepare([cards])
for (let n = 1; ; n++) {
  const changes = Array.from({ length: 200 }, (_, i) =>
    put(`d${i}`, { key: `d${i}`, rank: n, labels: [`v${n}`] }, n),
  )
  await store.apply(changes, new Map([['reader', { position: n, version: 1 }]]))
  process.stdout.write(`${n}\n`)
}
