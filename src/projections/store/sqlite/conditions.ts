/** Conditions as SQL. Values are always bound and names are checked. */
import type { Condition, Element, FilterValue } from '../filter.ts'
import type { AnyCollection } from '../read-store.ts'
import { arrayTable, fieldOf, longTexts, partTable } from './tables.ts'

export type Bindable = string | number
export interface Sql {
  text: string
  values: Bindable[]
}

/** A list as one bound value, so that lists of any length share one statement. */
export const LIST = '(SELECT value FROM json_each(?))'

/** Returns the test of a condition on a document `d`. `mayUseIndex`: whether SQLite may use an index on its field. */
export function test(collection: AnyCollection, condition: Condition, mayUseIndex = true): Sql {
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
    case 'contains':
      return contains({ text: ' AND value = ?', values: [condition.value] })
    case 'containsAny':
      // The plus stops SQLite from using the index by value: testing the few elements of the document is faster.
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
 * Tests that each word is a prefix of an element. `test` is SQL for those from `begin` to before `end`, with the given
 * number of `begin` and one `end`.
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

/** Tests whether a part of the document has a word with the prefix `begin`; `end` is after all such words. */
const partBegins = (parts: AnyCollection, begin: string, end: string) => `EXISTS (
  SELECT 1 FROM ${partTable(parts)} AS p WHERE p.owner = d.id AND (instr(p.words, ' ' || ${begin}) > 0 OR p.words IS NULL
    AND EXISTS (SELECT 1 FROM ${longTexts(parts)} WHERE part = p.seq AND value >= ${begin} AND value < ${end})))`

/** Maximum number of elements with one condition each, which takes a third of the time of a list. */
const FEW_ELEMENTS = 50

/** Returns a condition on an element, to combine with others. */
export function beginsWith(word: string): Sql {
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

/** Returns the smallest string after all strings with the prefix, in code point order; undefined without one. */
function endOfPrefix(prefix: string): string | undefined {
  const characters = [...prefix]
  while (characters.at(-1) === LAST_CHARACTER) characters.pop()
  const last = characters.pop()?.codePointAt(0)
  if (last === undefined) return undefined
  // Surrogates are not characters: U+E000 follows after U+D7FF.
  const next = last + 1 >= 0xd800 && last + 1 <= 0xdfff ? 0xe000 : last + 1
  return characters.join('') + String.fromCodePoint(next)
}
