/** The thread that reads for `reader.ts`: a program. */
import { workerData } from 'node:worker_threads'
import { serveRequests } from '../request-thread.ts'
import type { ReaderData, ReadQuestion } from './reader.ts'
import { connect, type Parameter, type Query, type Sqlite, selectColumn } from './sqlite.ts'

type Statement = Pick<Query<Parameter[], unknown>, 'get'>

/** So many texts of statements are kept prepared. */
const MAX_STATEMENTS = 50

const { file, timeout, told }: ReaderData = workerData
const statements = new Map<string, Statement>()
let connection: Sqlite | undefined

function connected(): Sqlite {
  if (connection !== undefined) return connection
  connection = connect(file, { readOnly: true, timeout })
  connection.exec('PRAGMA temp_store = MEMORY')
  connection.function('go_on', () => {
    if (Atomics.load(told, 0) !== 0) throw new Error('the read was told to end')
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

serveRequests(({ sql, parameters }: ReadQuestion) => {
  if (Atomics.load(told, 0) !== 0) throw new Error('the read was told to end')
  return prepared(sql).get(...parameters)
})
