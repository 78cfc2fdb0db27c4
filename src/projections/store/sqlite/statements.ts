/** Prepared statements of one connection, by their SQL. */
import { LRUCache } from 'lru-cache'

const MAX_STATEMENTS = 200

/** Prepares each SQL text once. Evicts the least recently used statements. */
export function cachedStatements<Statement extends object>(
  prepare: (sql: string) => Statement,
): (sql: string) => Statement {
  const statements = new LRUCache<string, Statement>({ max: MAX_STATEMENTS, memoMethod: prepare })
  return (sql) => statements.memo(sql)
}
