/**
 * How much SQLite looks at to answer a question. What is short is asked on the event loop, where it is fastest: it takes
 * a millisecond or two. Everything else may hold the loop for seconds, so it is asked beside it.
 */
import { type Condition, isOfOneValue, type Page } from '../filter.ts'
import type { AnyCollection } from '../read-store.ts'

/** To read a document and to test it takes 3 µs, and 200 µs when it has a long text. */
export const FEW_DOCUMENTS = 100
/** To walk over so many entries of an index takes about a millisecond. */
const FEW_ENTRIES = 20_000

/**
 * Whether the answer is surely short. `page`: undefined for a count and for the ids of all matches, which need no more
 * than an index. `documents`: how many the collection has, at most.
 */
export function isCheap(
  { indexes }: AnyCollection,
  conditions: readonly Condition[],
  page: Page | undefined,
  documents: number,
): boolean {
  if (documents <= FEW_DOCUMENTS) return true
  const entries = page === undefined ? documents : page.skip
  if (entries > FEW_ENTRIES || (page !== undefined && (page.limit ?? documents) > FEW_DOCUMENTS)) return false
  // The index by id is always there.
  return [{}, ...indexes].some((index) => fits(Object.entries(index), conditions, page))
}

/**
 * Whether an index has just what is asked for at one place: first the fields that are equal to something, then those of
 * the sort, of which the first one may have bounds.
 */
function fits(
  index: readonly [field: string, direction: unknown][],
  conditions: readonly Condition[],
  page: Page | undefined,
): boolean {
  const equal = conditions.filter(isOfOneValue)
  const others = conditions.filter((condition) => !isOfOneValue(condition))
  const first = new Set(index.slice(0, equal.length).map(([field]) => field))
  if (!equal.every(({ field }) => first.has(field))) return false
  const rest = index.slice(equal.length)
  const isBounded = ({ kind, field }: Condition) => kind === 'range' && field === rest[0]?.[0]
  if (!others.every(isBounded)) return false
  if (page === undefined) return true
  const { sort } = page
  return (
    sort.length === rest.length &&
    sort.every(([field, direction], i) => rest[i]?.[0] === field && rest[i]?.[1] === direction)
  )
}
