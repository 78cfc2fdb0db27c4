/** Compares stored documents with replayed ones, and finds the first difference. */
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { AnyCollection, IdRange, RangeDocument } from '../../projections/store/read-store.ts'

const PAGE = 1000
/** Maximum comparisons of a differing document, which a server may be changing, and the pause between them in ms. */
const MAX_TRIES = 10
const PAUSE = 100

export interface DocumentDifference {
  collection: string
  id: string
  kind: 'missing' | 'extra' | 'different'
  /** The first field that differs; `position` is that of the last event in the document. */
  field?: string
  /** The stored and the replayed value, as JSON. Long JSON is cut. */
  stored?: string
  expected?: string
}

type Range = (collection: AnyCollection, range: IdRange) => Promise<RangeDocument[]>

export interface Comparison {
  collection: AnyCollection
  stored: Range
  replayed: Range
  /** Ids of stored documents already found correct. `replayed` lacks them. */
  settled: ReadonlySet<string>
  /**
   * Reads one stored document again, and replays the log up to its position. Absent when stored documents
   * can't change during the comparison.
   */
  readAgain?: (id: string) => Promise<{ stored: RangeDocument[]; replayed: RangeDocument[] }>
  /** Called before each page is read. */
  beforePage?: () => Promise<void>
  onCompared: (documents: number) => void
}

/** The first difference by id; undefined when both sides are the same. */
export async function compareDocuments(comparison: Comparison): Promise<DocumentDifference | undefined> {
  const { collection, stored, replayed, settled, beforePage, onCompared } = comparison
  let after: string | undefined
  for (;;) {
    await beforePage?.()
    const range: IdRange = after === undefined ? { limit: PAGE } : { after, limit: PAGE }
    // Read the stored side first, so that it is never newer than the replayed side.
    const storedPage = await stored(collection, range)
    const replayedPage = await replayed(collection, range)
    const end = firstEnd(storedPage, replayedPage)
    const isComplete = ({ id }: RangeDocument) => end === undefined || byBytes(id, end) <= 0
    const unsettled = storedPage.filter((document) => isComplete(document) && !settled.has(document.id))
    const expected = replayedPage.filter(isComplete)
    const differences = differencesOf(collection.name, unsettled, expected)
    const found =
      comparison.readAgain === undefined ? differences[0] : await compareAgain(comparison, differences)
    if (found !== undefined) return found
    onCompared(expected.length)
    if (end === undefined) return undefined
    after = end
  }
}

/** Returns the last id up to which both pages are complete; undefined when both reach the end of the collection. */
function firstEnd(...pages: RangeDocument[][]): string | undefined {
  return pages
    .filter((page) => page.length === PAGE)
    .map((page) => page.at(-1)?.id)
    .filter((id) => id !== undefined)
    .sort(byBytes)[0]
}

/** The first difference that remains after several comparisons. */
async function compareAgain(
  { collection, readAgain }: Comparison,
  differences: readonly DocumentDifference[],
): Promise<DocumentDifference | undefined> {
  for (const { id } of differences) {
    for (let tries = 1; readAgain !== undefined; tries++) {
      const { stored, replayed } = await readAgain(id)
      const [difference] = differencesOf(collection.name, stored, replayed)
      if (difference === undefined) break
      if (tries === MAX_TRIES) return difference
      await delay(PAUSE)
    }
  }
  return undefined
}

/** All differences between two sets of documents, by id. */
function differencesOf(
  collection: string,
  stored: readonly RangeDocument[],
  replayed: readonly RangeDocument[],
): DocumentDifference[] {
  const actual = new Map(stored.map((document) => [document.id, document]))
  const differences: DocumentDifference[] = []
  for (const expected of replayed) {
    const { id } = expected
    const document = actual.get(id)
    actual.delete(id)
    if (document === undefined)
      differences.push({ collection, id, kind: 'missing', expected: shown(expected.body) })
    else if (!isSame(document, expected)) {
      differences.push({ collection, id, kind: 'different', ...firstField(document, expected) })
    }
  }
  for (const { id, body } of actual.values()) {
    differences.push({ collection, id, kind: 'extra', stored: shown(body) })
  }
  return differences.sort((a, b) => byBytes(a.id, b.id))
}

/**
 * Whether position and body are equal. Compares the texts first, because parsing is slow. Texts equal in UTF-8 count as
 * equal, as MongoDB cannot store unpaired surrogates.
 */
export function isSame(a: RangeDocument, b: RangeDocument): boolean {
  if (a.position !== b.position) return false
  if (a.text !== undefined && a.text === b.text) return true
  return isDeepStrictEqual(a.body, b.body) || isDeepStrictEqual(wellFormed(a.body), wellFormed(b.body))
}

function firstField(stored: RangeDocument, replayed: RangeDocument) {
  for (const field of new Set([...Object.keys(replayed.body), ...Object.keys(stored.body)])) {
    const [actual, expected]: unknown[] = [Reflect.get(stored.body, field), Reflect.get(replayed.body, field)]
    if (!isDeepStrictEqual(actual, expected))
      return { field, stored: shown(actual), expected: shown(expected) }
  }
  return { field: 'position', stored: shown(stored.position), expected: shown(replayed.position) }
}

const MAX_SHOWN = 200

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}

/** Sorts as both stores sort ids. JavaScript's own order differs for characters beyond the basic plane. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/**
 * Returns JSON with unpaired surrogates replaced by U+FFFD, as UTF-8 encoders do. The value must not be nested deeply.
 */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [name.toWellFormed(), wellFormed(part)]),
  )
}
