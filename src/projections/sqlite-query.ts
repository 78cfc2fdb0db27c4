/**
 * Filters and pages as SQL. Values are always bound and names are checked. Filters of the same shape give the same
 * text, so that they share one prepared statement.
 */
import {
  type Condition,
  checkName,
  type Element,
  type FilterValue,
  isOfOneValue,
  type Page,
} from './filter.ts'
import { type AnyCollection, type Index, LONG_DOCUMENT } from './read-store.ts'
import {
  arrayTable,
  documentTable,
  fieldOf,
  indexName,
  longTexts,
  partTable,
  wordIndex,
} from './sqlite-tables.ts'

export type Bindable = string | number
export interface Sql {
  text: string
  values: Bindable[]
}

/** The documents that meet one array condition. A query can begin with this set. */
export interface Hits {
  /** The column with the ids of the documents. */
  id: 'id' | 'owner'
  /** SQL from `FROM` on. */
  from: string
  values: Bindable[]
  /** Whether it may take long even to count them. */
  isLong?: boolean
}

/** The sets of documents that an array condition demands; none for other conditions. A match is in all of them. */
export function hitsOf(collection: AnyCollection, condition: Condition): Hits[] {
  const from = `FROM ${arrayTable(collection)} WHERE field = '${checkName('field', condition.field)}'`
  switch (condition.kind) {
    case 'containsAll':
      return condition.values.map((value) => ({ id: 'id', from: `${from} AND value = ?`, values: [value] }))
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

/** What the index of words takes for one word. */
const WORD = /^[\p{L}\p{N}\p{M}]+$/u

/** The documents with a part of which a word begins with `word`. */
function ownersOf(parts: AnyCollection, word: string): Hits {
  const index = wordIndex(parts)
  return {
    id: 'owner',
    from: `FROM ${index} CROSS JOIN ${partTable(parts)} ON seq = ${index}.rowid WHERE ${index} MATCH ?`,
    values: [`"${word}" *`],
    // For more than three characters, the index first puts together all words that begin with them.
    isLong: true,
  }
}

/**
 * The sets of documents that indexes find: of each index the fields that it begins with and that conditions give. The last
 * one may have bounds.
 */
export function indexedHits(collection: AnyCollection, conditions: readonly Condition[]): Hits[] {
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
      // SQLite may take another index for an equal number of values. To test bounds it would read all of the documents.
      const by = set.at(-1)?.kind === 'range' ? ` INDEXED BY ${indexName(collection, index)}` : ''
      return {
        id: 'id',
        from: `FROM ${documentTable(collection)}${by} WHERE ${where}`,
        values: tests.flatMap((one) => one.values),
      }
    })
}

/** The conditions on the fields that an index begins with: on values, and then on bounds of one field. */
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

/** Counts the documents of a set, at most up to `most`. */
export function countHits(hits: Hits, most: number): Sql {
  return { text: `SELECT count(*) FROM (SELECT 1 ${hits.from} LIMIT ?)`, values: [...hits.values, most] }
}

/** What a page shows of a document: all of it, or of a long one only its id. SQLite does not read the rest then. */
const LISTED = {
  body: 'body',
  row: `iif(octet_length(body) > ${LONG_DOCUMENT}, json_quote(d.id), body)`,
}
export type Listed = keyof typeof LISTED

/**
 * Selects one page of documents. With `start`, SQLite tests and sorts only the documents of that set. Without it,
 * SQLite walks the index of the sort until the page is full: it would prefer another one, and sort all that this finds.
 */
export function selectPage(
  collection: AnyCollection,
  conditions: readonly Condition[],
  page: Page,
  what: Listed,
  start?: Hits,
): Sql {
  const walk = start === undefined ? walkOf(collection, conditions, page) : undefined
  const { text, values } = matching(collection, conditions, start, walk)
  const order = page.sort.map(([field, direction]) => `${fieldOf(field)}${direction === 1 ? '' : ' DESC'}`)
  return {
    text: `SELECT ${LISTED[what]} AS listed ${text} ORDER BY ${[...order, 'd.id'].join(', ')} LIMIT ? OFFSET ?`,
    values: [...values, page.limit ?? -1, page.skip],
  }
}

/** The conditions that tell where to walk in the index of the sort. Undefined when no index has what the page needs. */
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

/** A list is one bound value, so that lists of any length share one statement. */
const LIST = '(SELECT value FROM json_each(?))'

/**
 * SQL from `FROM` on for all documents that meet the conditions. `start`: see `selectPage`. `indexed`: the conditions for
 * which SQLite may use an index; all without it.
 */
export function matching(
  collection: AnyCollection,
  conditions: readonly Condition[],
  start?: Hits,
  indexed = conditions,
): Sql {
  const documents = `${documentTable(collection)} AS d`
  const tests = conditions.map((condition) => test(collection, condition, indexed.includes(condition)))
  // In SQLite, CROSS JOIN fixes the order: first the hits, then their documents.
  const from =
    start === undefined
      ? `FROM ${documents}`
      : `FROM (SELECT DISTINCT ${start.id} AS hit ${start.from}) CROSS JOIN ${documents} ON d.id = hit`
  const where = tests.length === 0 ? '' : ` WHERE ${tests.map((t) => t.text).join(' AND ')}`
  return { text: `${from}${where}`, values: [...(start?.values ?? []), ...tests.flatMap((t) => t.values)] }
}

function test(collection: AnyCollection, condition: Condition, mayUseIndex = true): Sql {
  // The plus stops SQLite from using an index.
  const field = `${mayUseIndex ? '' : '+'}${fieldOf(condition.field)}`
  const own = `FROM ${arrayTable(collection)} AS a WHERE a.field = '${condition.field}' AND a.id = d.id`
  const contains = ({ text, values }: Sql) => ({ text: `EXISTS (SELECT 1 ${own}${text})`, values })
  switch (condition.kind) {
    case 'equals':
      return equals(field, condition.value)
    case 'oneOf': {
      const [only, ...others] = condition.values
      if (only === undefined) return { text: '0', values: [] }
      if (others.length === 0) return equals(field, only)
      const list = condition.values.filter((value) => value !== null).map(bindable)
      const orNull = condition.values.includes(null)
      return {
        text: orNull ? `(${field} IS NULL OR ${field} IN ${LIST})` : `${field} IN ${LIST}`,
        values: [JSON.stringify(list)],
      }
    }
    case 'range':
      return range(field, condition.bounds)
    case 'containsAll':
      if (condition.values.length <= FEW_ELEMENTS) {
        return allHold(condition.values.map((value) => contains({ text: ' AND value = ?', values: [value] })))
      }
      return eachHolds(condition.values, `EXISTS (SELECT 1 ${own} AND value = wanted.value)`)
    case 'containsAny':
      // The plus stops SQLite from using the index by value. It then tests the few elements of the document, and not
      // all documents with the value.
      return contains({ text: ` AND +value IN ${LIST}`, values: [JSON.stringify(condition.values)] })
    case 'containsWords': {
      const { words, parts } = condition
      return parts === undefined
        ? eachBegins(
            words,
            1,
            (begin, end) => `EXISTS (SELECT 1 ${own} AND value >= ${begin} AND value < ${end})`,
          )
        : eachBegins(words, 2, (begin, end) => partBegins(parts, begin, end))
    }
  }
}

/**
 * Tests that for each word there is one that begins with it: `test` is SQL for those from `begin` to before `end`. In the
 * test, `begin` comes so many times, and then `end` once.
 */
function eachBegins(
  words: readonly string[],
  times: number,
  test: (begin: string, end: string) => string,
): Sql {
  if (words.length > FEW_ELEMENTS) {
    const [begin, end] = ['$[0]', '$[1]'].map((path) => `json_extract(wanted.value, '${path}')`)
    return eachHolds(
      words.map((word) => [word, endOfPrefix(word) ?? null]),
      test(`${begin}`, `coalesce(${end}, ${AFTER_ALL})`),
    )
  }
  return allHold(
    words.map((word) => {
      const end = endOfPrefix(word)
      const begins = Array<string>(times).fill(word)
      return end === undefined
        ? { text: test('?', AFTER_ALL), values: begins }
        : { text: test('?', '?'), values: [...begins, end] }
    }),
  )
}

/** In SQLite, every blob comes after all text. */
const AFTER_ALL = `x''`

/** Whether a part of the document has a word from `begin` to before `end`, which all begin with `begin`. */
const partBegins = (parts: AnyCollection, begin: string, end: string) => `EXISTS (
  SELECT 1 FROM ${partTable(parts)} AS p WHERE p.owner = d.id AND (instr(p.words, ' ' || ${begin}) > 0 OR p.words IS NULL
    AND EXISTS (SELECT 1 FROM ${longTexts(parts)} WHERE part = p.seq AND value >= ${begin} AND value < ${end})))`

/** Up to this many elements, one condition per element is used: it takes a third of the time of a list. */
const FEW_ELEMENTS = 50

/** A condition on an element, to be added to others. */
function beginsWith(word: string): Sql {
  const end = endOfPrefix(word)
  return end === undefined
    ? { text: ' AND value >= ?', values: [word] }
    : { text: ' AND value >= ? AND value < ?', values: [word, end] }
}

function allHold(tests: readonly Sql[]): Sql {
  return {
    text: ['1', ...tests.map(({ text }) => text)].join(' AND '),
    values: tests.flatMap(({ values }) => values),
  }
}

function equals(field: string, value: FilterValue): Sql {
  return value === null
    ? { text: `${field} IS NULL`, values: [] }
    : { text: `${field} = ?`, values: [bindable(value)] }
}

/** SQLite sorts numbers before strings. An open range of one type must not include the other type. */
function range(field: string, bounds: Extract<Condition, { kind: 'range' }>['bounds']): Sql {
  const tests = bounds.map(({ operator, value }) => {
    const otherType =
      typeof value === 'string' && operator.startsWith('<')
        ? ` AND ${field} >= ''`
        : typeof value !== 'string' && operator.startsWith('>')
          ? ` AND ${field} < ''`
          : ''
    return `${field} ${operator} ?${otherType}`
  })
  return { text: tests.join(' AND '), values: bounds.map(({ value }) => bindable(value)) }
}

/** Tests any number of wanted values in one expression: a long chain of ANDs would exceed SQLite's depth limit. */
const eachHolds = (wanted: unknown[], test: string): Sql => ({
  text: `NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT ${test})`,
  values: [JSON.stringify(wanted)],
})

/** `json_extract` returns JSON's true and false as 1 and 0. */
function bindable(value: Element | boolean): Bindable {
  return typeof value === 'boolean' ? Number(value) : value
}

const LAST_CHARACTER = '\u{10ffff}'

/** The smallest string after all strings with the prefix, in the order of code points; undefined when there is none. */
function endOfPrefix(prefix: string): string | undefined {
  const characters = [...prefix]
  while (characters.at(-1) === LAST_CHARACTER) characters.pop()
  const last = characters.pop()?.codePointAt(0)
  if (last === undefined) return undefined
  // Surrogates are not characters: U+E000 follows after U+D7FF.
  const next = last + 1 >= 0xd800 && last + 1 <= 0xdfff ? 0xe000 : last + 1
  return characters.join('') + String.fromCodePoint(next)
}
