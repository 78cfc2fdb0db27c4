/** Filters and pages as SQL: values are always bound, names are checked, and the text is the same for the same shape. */
import { type Condition, checkName, type Element, type FilterValue, type Page } from './filter.ts'
import type { AnyCollection } from './read-store.ts'

export type Bindable = string | number
export interface Sql {
  text: string
  values: Bindable[]
}

/** A table of documents `(id, position, body)`. */
export const documentTable = (collection: AnyCollection) => `doc_${checkName('collection', collection.name)}`
/** A table `(field, id, value)` with a row per element of the declared array fields. */
export const arrayTable = (collection: AnyCollection) => `arr_${checkName('collection', collection.name)}`
/** The expression that indexes are made on, and that conditions must repeat to be answered by them. */
export const fieldOf = (field: string) => `json_extract(body, '$.${checkName('field', field)}')`

/** The documents with one of some elements in an array field: where a query can begin. */
export interface Hits {
  /** Over the array table; selects nothing by itself. */
  from: string
  values: Bindable[]
}

/** Every set of documents that an array condition cuts down to; all of them hold. */
export function hitsOf(collection: AnyCollection, conditions: readonly Condition[]): Hits[] {
  return conditions.flatMap((condition) => hitsOfOne(arrayTable(collection), condition))
}

function hitsOfOne(table: string, condition: Condition): Hits[] {
  const from = `FROM ${table} WHERE field = '${checkName('field', condition.field)}'`
  switch (condition.kind) {
    case 'containsAll':
      return condition.values.map((value) => ({ from: `${from} AND value = ?`, values: [value] }))
    case 'containsAny':
      return [{ from: `${from} AND value IN ${LIST}`, values: [JSON.stringify(condition.values)] }]
    case 'containsWords':
      return condition.words.map((word) => {
        const end = endOfPrefix(word)
        return end === undefined
          ? { from: `${from} AND value >= ?`, values: [word] }
          : { from: `${from} AND value >= ? AND value < ?`, values: [word, end] }
      })
    case 'equals':
    case 'oneOf':
    case 'range':
      return []
  }
}

/** How many documents a set has, counted no further than `most`. */
export function countHits(hits: Hits, most: number): Sql {
  return {
    text: `SELECT count(*) FROM (SELECT 1 ${hits.from} LIMIT ?)`,
    values: [...hits.values, most],
  }
}

/**
 * One page of documents. With `start`, only its documents are looked at, and then sorted; without it the
 * index that has the sort is walked until the page is full.
 */
export function selectPage(
  collection: AnyCollection,
  conditions: readonly Condition[],
  page: Page,
  start?: Hits,
): Sql {
  const { text, values } = matching(collection, conditions, start)
  const order = page.sort.map(([field, direction]) => `${fieldOf(field)}${direction === 1 ? '' : ' DESC'}`)
  return {
    text: `SELECT body ${text} ORDER BY ${[...order, 'd.id'].join(', ')} LIMIT ? OFFSET ?`,
    values: [...values, page.limit ?? -1, page.skip],
  }
}

export function selectCount(collection: AnyCollection, conditions: readonly Condition[], start?: Hits): Sql {
  const { text, values } = matching(collection, conditions, start)
  return { text: `SELECT count(*) ${text}`, values }
}

export function selectIds(collection: AnyCollection, conditions: readonly Condition[], start?: Hits): Sql {
  const { text, values } = matching(collection, conditions, start)
  return { text: `SELECT d.id ${text}`, values }
}

/** A list as one bound value, so that lists of any length share one statement. */
const LIST = '(SELECT value FROM json_each(?))'

function matching(collection: AnyCollection, conditions: readonly Condition[], start?: Hits): Sql {
  const documents = `${documentTable(collection)} AS d`
  const tests = conditions.map((condition) => test(collection, condition))
  // CROSS JOIN is SQLite's word for "in this order".
  const from =
    start === undefined
      ? `FROM ${documents}`
      : `FROM (SELECT DISTINCT id AS hit ${start.from}) CROSS JOIN ${documents} ON d.id = hit`
  const where = tests.length === 0 ? '' : ` WHERE ${tests.map((t) => t.text).join(' AND ')}`
  return {
    text: `${from}${where}`,
    values: [...(start?.values ?? []), ...tests.flatMap((t) => t.values)],
  }
}

function test(collection: AnyCollection, condition: Condition): Sql {
  switch (condition.kind) {
    case 'equals':
      return equals(fieldOf(condition.field), condition.value)
    case 'oneOf': {
      const field = fieldOf(condition.field)
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
      return range(fieldOf(condition.field), condition.bounds)
    case 'containsAll':
      if (condition.values.length <= FEW_ELEMENTS) {
        return allHold(
          condition.values.map((value) => contains(collection, condition.field, ' AND value = ?', [value])),
        )
      }
      return containsEach(collection, condition.field, condition.values, 'value = wanted.value')
    case 'containsAny':
      // With the plus SQLite looks at the document's own few elements, not at all documents that have the value.
      return contains(collection, condition.field, ` AND +value IN ${LIST}`, [
        JSON.stringify(condition.values),
      ])
    case 'containsWords': {
      if (condition.words.length <= FEW_ELEMENTS) {
        return allHold(condition.words.map((word) => beginsWith(collection, condition.field, word)))
      }
      const ranges = condition.words.map((word) => [word, endOfPrefix(word) ?? null])
      const begins = `value >= json_extract(wanted.value, '$[0]')
        AND value < coalesce(json_extract(wanted.value, '$[1]'), x'')`
      return containsEach(collection, condition.field, ranges, begins)
    }
  }
}

/** So few elements are asked for one by one: a third of the time of asking for a list. */
const FEW_ELEMENTS = 50

function contains(collection: AnyCollection, field: string, and: string, values: Bindable[]): Sql {
  return { text: `EXISTS (SELECT 1 ${elements(collection, field)}${and})`, values }
}

function beginsWith(collection: AnyCollection, field: string, word: string): Sql {
  const end = endOfPrefix(word)
  return end === undefined
    ? contains(collection, field, ' AND value >= ?', [word])
    : contains(collection, field, ' AND value >= ? AND value < ?', [word, end])
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

/** SQLite sorts numbers before strings: a bound of one type must not let in the other. */
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

/** However many are wanted, one statement: a chain of ANDs would end at SQLite's limit of depth. */
function containsEach(collection: AnyCollection, field: string, wanted: unknown[], matches: string): Sql {
  return {
    text: `NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted
      WHERE NOT EXISTS (SELECT 1 ${elements(collection, field)} AND ${matches}))`,
    values: [JSON.stringify(wanted)],
  }
}

function elements(collection: AnyCollection, field: string): string {
  const table = arrayTable(collection)
  return `FROM ${table} AS a WHERE a.field = '${checkName('field', field)}' AND a.id = d.id`
}

/** JSON's true and false come out of `json_extract` as 1 and 0. */
function bindable(value: Element | boolean): Bindable {
  return typeof value === 'boolean' ? Number(value) : value
}

const LAST_CHARACTER = '\u{10ffff}'

/** The least string after all that begin with the prefix, in the order of code points; undefined: there is none. */
function endOfPrefix(prefix: string): string | undefined {
  const characters = [...prefix]
  while (characters.at(-1) === LAST_CHARACTER) characters.pop()
  const last = characters.pop()?.codePointAt(0)
  if (last === undefined) return undefined
  // The code points of surrogates are no characters: after U+D7FF comes U+E000.
  const next = last + 1 >= 0xd800 && last + 1 <= 0xdfff ? 0xe000 : last + 1
  return characters.join('') + String.fromCodePoint(next)
}
