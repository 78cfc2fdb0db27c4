/**
 * Estimates the cost of a query in SQLite. Cheap queries take a millisecond or two and run fastest on the event loop;
 * others run outside of it.
 */
import { type Condition, isOfOneValue, type Page } from '../filter.ts'
import type { AnyCollection } from '../read-store.ts'

/** Number of documents that are cheap to test: 3 µs each, or 200 µs with a long text. */
export const FEW_DOCUMENTS = 100
/** Number of index entries scanned in about a millisecond. */
const FEW_ENTRIES = 20_000

/**
 * Whether a query is certainly cheap. `page`: undefined for a count and for the ids of all matches, which only need an
 * index. `documents`: upper bound of the collection's size.
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
  // `{}` is the index by id.
  return [{}, ...indexes].some((index) => fits(Object.entries(index), conditions, page))
}

/**
 * Whether an index has the results in one range: first the fields with equality, then the sort fields, of which the
 * first may have bounds.
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
