/** The thread program of `reader.ts`. */
import { workerData } from 'node:worker_threads'
import { serveRequests } from '../request-thread.ts'
import type { ReaderData, ReadRequest } from './reader.ts'
import { connect, type Parameter, type Query, type Sqlite, selectColumn } from './sqlite.ts'

type Statement = Pick<Query<Parameter[], unknown>, 'get'>

/** Maximum number of prepared statements in the cache. */
const MAX_STATEMENTS = 50

const { file, timeout, aborted }: ReaderData = workerData
const statements = new Map<string, Statement>()
let connection: Sqlite | undefined

function connected(): Sqlite {
  if (connection !== undefined) return connection
  connection = connect(file, { readOnly: true, timeout })
  connection.exec('PRAGMA temp_store = MEMORY')
  connection.function('go_on', () => {
    if (Atomics.load(aborted, 0) !== 0) throw new Error('the read was aborted')
    return 1
  })
  return connection
}

function prepared(sql: string): Statement {
  const known = statements.get(sql)
  if (known !== undefined) return known
  const statement = selectColumn<Parameter[], unknown>(connected(), sql)
  if (statements.size >= MAX_STATEMENTS) statements.clear()
  statements.set(sql, statement)
  return statement
}

serveRequests(({ sql, parameters }: ReadRequest) => {
  if (Atomics.load(aborted, 0) !== 0) throw new Error('the read was aborted')
  return prepared(sql).get(...parameters)
})
