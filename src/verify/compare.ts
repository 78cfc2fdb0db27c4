/** The documents that are stored beside those that the log gives: the first that differ. */
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { AnyCollection, IdRange, RangeDocument } from '../projections/read-store.ts'

const PAGE = 1000
/** A document that another process is changing is looked at again so many times, with this between, in ms. */
const LOOKS = 10
const PAUSE = 100

export interface DocumentDifference {
  collection: string
  id: string
  kind: 'missing' | 'extra' | 'different'
  /** The first field that differs; `position` is that of the last event in the document. */
  field?: string
  /** What is stored, and what the log gives, as JSON that is cut off when it is long. */
  stored?: string
  expected?: string
}

type Range = (collection: AnyCollection, range: IdRange) => Promise<RangeDocument[]>

export interface Comparison {
  collection: AnyCollection
  stored: Range
  replayed: Range
  /** Ids of stored documents that are known to be as they should be: they are not among the replayed. */
  settled: ReadonlySet<string>
  /**
   * Where stored documents may change while they are compared: reads one of them once more, and replays the log
   * up to where it stands. Absent when they can't change.
   */
  again?: (id: string) => Promise<{ stored: RangeDocument[]; replayed: RangeDocument[] }>
  /** Before a page is read. */
  before?: () => Promise<void>
  onCompared: (documents: number) => void
}

/** The first difference between the two sides, by id, in both directions; undefined when they are the same. */
export async function compareDocuments(comparison: Comparison): Promise<DocumentDifference | undefined> {
  const { collection, stored, replayed, settled, before, onCompared } = comparison
  let after: string | undefined
  for (;;) {
    await before?.()
    const range: IdRange = after === undefined ? { limit: PAGE } : { after, limit: PAGE }
    // In this order: what is stored is then never newer than what is replayed.
    const there = await stored(collection, range)
    const made = await replayed(collection, range)
    const end = firstEnd(there, made)
    const within = ({ id }: RangeDocument) => end === undefined || byBytes(id, end) <= 0
    const open = there.filter((document) => within(document) && !settled.has(document.id))
    const expected = made.filter(within)
    const differences = differencesOf(collection.name, open, expected)
    const found = comparison.again === undefined ? differences[0] : await lookAgain(comparison, differences)
    if (found !== undefined) return found
    onCompared(expected.length)
    if (end === undefined) return undefined
    after = end
  }
}

/** Up to where both pages are complete; undefined when both are at the end of the collection. */
function firstEnd(...pages: RangeDocument[][]): string | undefined {
  return pages
    .filter((page) => page.length === PAGE)
    .map((page) => page.at(-1)?.id)
    .filter((id) => id !== undefined)
    .sort(byBytes)[0]
}

/** The first that still differs after it has been looked at several times. */
async function lookAgain(
  { collection, again }: Comparison,
  differences: readonly DocumentDifference[],
): Promise<DocumentDifference | undefined> {
  for (const { id } of differences) {
    for (let looks = 1; again !== undefined; looks++) {
      const { stored, replayed } = await again(id)
      const [difference] = differencesOf(collection.name, stored, replayed)
      if (difference === undefined) break
      if (looks === LOOKS) return difference
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
  const there = new Map(stored.map((document) => [document.id, document]))
  const differences: DocumentDifference[] = []
  for (const made of replayed) {
    const { id } = made
    const document = there.get(id)
    there.delete(id)
    if (document === undefined)
      differences.push({ collection, id, kind: 'missing', expected: shown(made.body) })
    else if (!isSame(document, made)) {
      differences.push({ collection, id, kind: 'different', ...firstField(document, made) })
    }
  }
  for (const { id, body } of there.values()) {
    differences.push({ collection, id, kind: 'extra', stored: shown(body) })
  }
  return differences.sort((a, b) => byBytes(a.id, b.id))
}

/** Whether two documents have the same position and say the same. The texts first: to parse them takes long. */
export function isSame(a: RangeDocument, b: RangeDocument): boolean {
  if (a.position !== b.position) return false
  return (a.text !== undefined && a.text === b.text) || isDeepStrictEqual(a.body, b.body)
}

function firstField(stored: RangeDocument, replayed: RangeDocument) {
  for (const field of new Set([...Object.keys(replayed.body), ...Object.keys(stored.body)])) {
    const [there, made]: unknown[] = [Reflect.get(stored.body, field), Reflect.get(replayed.body, field)]
    if (!isDeepStrictEqual(there, made)) return { field, stored: shown(there), expected: shown(made) }
  }
  return { field: 'position', stored: shown(stored.position), expected: shown(replayed.position) }
}

const SHOWN = 200

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text
}

/** As both stores sort ids: JavaScript's own order differs beyond the basic plane. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
