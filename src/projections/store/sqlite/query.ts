/**
 * Pages, counts and sets of documents as SQL. Filters of the same shape give the same text, so that they share one prepared
 * statement.
 */

import { ABORT_CHECK } from '../../../storage/sqlite/reader.ts'
import { ROWS } from '../../../storage/sqlite/sqlite.ts'
import { type Condition, checkName, isOfOneValue, type Page } from '../filter.ts'
import { type AnyCollection, type Index, LONG_DOCUMENT } from '../read-store.ts'
import { type Bindable, beginsWith, LIST, type Sql, test } from './conditions.ts'
import { arrayTable, documentTable, fieldOf, indexName, partTable, wordIndex } from './tables.ts'

/** A set of documents with which a query can begin. */
export interface DocumentSet {
  /** The column with the ids of the documents. */
  id: 'id' | 'owner'
  /** SQL from `FROM` on. */
  from: string
  values: Bindable[]
  /** Whether even counting them may take long. */
  isLong?: boolean
}

/** Returns the sets of documents, each containing all matches, for an array condition; empty for other conditions. */
export function setsOf(collection: AnyCollection, condition: Condition): DocumentSet[] {
  const from = `FROM ${arrayTable(collection)} WHERE field = '${checkName('field', condition.field)}'`
  switch (condition.kind) {
    case 'contains':
      return [{ id: 'id', from: `${from} AND value = ?`, values: [condition.value] }]
    case 'containsAny':
      return [{ id: 'id', from: `${from} AND value IN ${LIST}`, values: [JSON.stringify(condition.values)] }]
    case 'containsWords': {
      const { parts } = condition
      if (parts !== undefined) {
        return condition.words.filter((word) => WORD.test(word)).map((word) => ownersOf(parts, word))
      }
      return condition.words.map((word) => {
        const { text, values } = beginsWith(word)
        return { id: 'id', from: from + text, values }
      })
    }
    case 'equals':
    case 'oneOf':
    case 'range':
      return []
  }
}

/** Characters that the full text index accepts in a word. */
const WORD = /^[\p{L}\p{N}\p{M}]+$/u

/** The documents with a part that has a word with the prefix `word`. */
function ownersOf(parts: AnyCollection, word: string): DocumentSet {
  const index = wordIndex(parts)
  return {
    id: 'owner',
    from: `FROM ${index} CROSS JOIN ${partTable(parts)} ON seq = ${index}.rowid WHERE ${index} MATCH ?`,
    values: [`"${word}" *`],
    // Beyond three characters, the index first collects all words with the prefix.
    isLong: true,
  }
}

/**
 * Returns the sets of documents that indexes find: for each index, its first fields that have conditions. The last one
 * may have bounds.
 */
export function indexedSets(collection: AnyCollection, conditions: readonly Condition[]): DocumentSet[] {
  const sets = new Map(
    collection.indexes.map((index) => {
      const set = beginningOf(index, conditions)
      return [
        set
          .map(({ field }) => field)
          .toSorted()
          .join(),
        { index, set },
      ]
    }),
  )
  return [...sets.values()]
    .filter(({ set }) => set.length > 0)
    .filter(
      ({ set }, _, all) =>
        !all.some((larger) => larger.set.length > set.length && set.every((one) => larger.set.includes(one))),
    )
    .map(({ index, set }) => {
      const tests = set.map((condition) => test(collection, condition))
      const where = tests.map(({ text }) => text).join(' AND ')
      // SQLite may choose another index for an equal number of values, and read all documents to test the bounds.
      const by = set.at(-1)?.kind === 'range' ? ` INDEXED BY ${indexName(collection, index)}` : ''
      return {
        id: 'id',
        from: `FROM ${documentTable(collection)}${by} WHERE ${where}`,
        values: tests.flatMap((one) => one.values),
      }
    })
}

/** Returns the conditions on the first fields of an index: on values, and then on bounds of one field. */
function beginningOf(index: Index, conditions: readonly Condition[]): Condition[] {
  const beginning: Condition[] = []
  for (const name of Object.keys(index)) {
    const onField = conditions.filter(({ field }) => field === name)
    const onValues = onField.filter(({ kind }) => kind === 'equals' || kind === 'oneOf')
    if (onValues.length > 0) beginning.push(...onValues)
    else return [...beginning, ...onField.filter(({ kind }) => kind === 'range')]
  }
  return beginning
}

/** The start of the search for documents, and whether it may take long: then it can be aborted. */
export interface Plan {
  /** A set of documents that contains all matches; undefined for all documents. */
  start: DocumentSet | undefined
  isLong: boolean
}

const unlessEnded = (isLong: boolean) => (isLong ? ` AND ${ABORT_CHECK}` : '')

/** Counts the documents of a set, at most up to `most`. */
export function countSet({ from, values, isLong = false }: DocumentSet, most: number): Sql {
  return {
    text: `SELECT count(*) FROM (SELECT 1 ${from}${unlessEnded(isLong)} LIMIT ${ROWS})`,
    values: [...values, most],
  }
}

/** Columns of a page: the document, or only the id of a long one, whose body SQLite need not read. */
const LISTED = {
  body: 'body',
  row: `iif(octet_length(body) > ${LONG_DOCUMENT}, json_quote(d.id), body)`,
}
export type Listed = keyof typeof LISTED

/**
 * Selects one page of documents. With a start, SQLite tests and sorts only the documents of that set. Without it,
 * SQLite scans the sort's index until the page is full; it would choose another index and sort.
 */
export function selectPage(
  collection: AnyCollection,
  conditions: readonly Condition[],
  page: Page,
  what: Listed,
  plan: Plan,
): Sql {
  const walk = plan.start === undefined ? walkOf(collection, conditions, page) : undefined
  const { text, values } = matching(collection, conditions, plan, walk)
  const order = page.sort.map(([field, direction]) => `${fieldOf(field)}${direction === 1 ? '' : ' DESC'}`)
  return {
    text: `SELECT ${LISTED[what]} AS listed ${text} ORDER BY ${[...order, 'd.id'].join(', ')} LIMIT ${ROWS} OFFSET ${ROWS}`,
    values: [...values, page.limit ?? -1, page.skip],
  }
}

/** Returns the conditions for the scan of the sort's index; undefined without a suitable index. */
function walkOf(
  { indexes }: AnyCollection,
  conditions: readonly Condition[],
  { sort, limit }: Page,
): readonly Condition[] | undefined {
  const [first] = sort
  if (first === undefined || limit === null) return undefined
  const walks = indexes.flatMap((index) => {
    const fields = Object.entries(index)
    const names = fields.slice(0, -sort.length).map(([field]) => field)
    const ends = fields.slice(names.length)
    const isSorted =
      ends.length === sort.length &&
      sort.every(([field, direction], i) => ends[i]?.[0] === field && ends[i]?.[1] === direction)
    const given = names.map((name) => conditions.find((one) => one.field === name && isOfOneValue(one)))
    return isSorted && !given.includes(undefined) ? [given.filter((one) => one !== undefined)] : []
  })
  const longest = walks.toSorted((a, b) => b.length - a.length)[0]
  return (
    longest && [...longest, ...conditions.filter(({ kind, field }) => kind === 'range' && field === first[0])]
  )
}

/**
 * Returns SQL from `FROM` on for all documents that meet the conditions. `indexed`: the conditions for which SQLite may
 * use an index; default all.
 */
export function matching(
  collection: AnyCollection,
  conditions: readonly Condition[],
  { start, isLong }: Plan,
  indexed = conditions,
): Sql {
  const documents = `${documentTable(collection)} AS d`
  const tests = conditions.map((condition) => test(collection, condition, indexed.includes(condition)))
  // In SQLite, CROSS JOIN fixes the order: first the set, then its documents.
  const from =
    start === undefined
      ? `FROM ${documents}`
      : `FROM (SELECT DISTINCT ${start.id} AS hit ${start.from}${unlessEnded(isLong)}) CROSS JOIN ${documents} ON d.id = hit`
  // First, because a test of a document may be slow.
  const texts = [...(isLong ? [ABORT_CHECK] : []), ...tests.map(({ text }) => text)]
  const where = texts.length === 0 ? '' : ` WHERE ${texts.join(' AND ')}`
  return { text: `${from}${where}`, values: [...(start?.values ?? []), ...tests.flatMap((t) => t.values)] }
}
