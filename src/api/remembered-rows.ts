/** Rows of lists that many answers show: each is made once, and its JSON with it, while all that it shows is the same. */
import { LRUCache } from 'lru-cache'
import { shared } from '../http/answers/shared-parts.ts'
import { LONG_DOCUMENT } from '../projections/store/read-store.ts'
import { roughSize } from '../projections/views/rough-size.ts'
import type { RelatedDocuments } from './related-documents.ts'

/** Maximum size of the documents of the cached rows, in characters, per kind of row: about a thousand usual rows. */
const MAX_CHARACTERS = 2 * 1024 * 1024

type Kind = Exclude<keyof RelatedDocuments, 'publicUrl'>

/** The look-ups of a row, with their results. */
interface Shown {
  kind: Kind
  id: number
  value: unknown
}

/**
 * Makes the row of a document, and gives the same one again while all that it has looked up is still the same.
 * Documents and wire forms are never changed: a later version is another object.
 */
export function rememberedRow<D extends object, W extends object>(
  make: (document: D, related: RelatedDocuments) => W,
): (document: D, related: RelatedDocuments) => W {
  const made = new LRUCache<D, { row: W; shown: readonly Shown[]; publicUrl: string }>({
    maxSize: MAX_CHARACTERS,
    maxEntrySize: LONG_DOCUMENT,
    sizeCalculation: (_, document) => roughSize(document),
  })
  return (document, related) => {
    const { publicUrl } = related
    const known = made.get(document)
    const isSame = ({ kind, id, value }: Shown) => related[kind].get(id) === value
    if (known?.publicUrl === publicUrl && known.shown.every(isSame)) return known.row
    const shown: Shown[] = []
    const row = shared(make(document, noting(related, shown)))
    made.set(document, { row, shown, publicUrl })
    return row
  }
}

/** The same documents; what is looked up is noted. */
function noting(related: RelatedDocuments, shown: Shown[]): RelatedDocuments {
  const noted = <V>(kind: Kind, documents: { get(id: number): V | undefined }) => ({
    get(id: number): V | undefined {
      const value = documents.get(id)
      shown.push({ kind, id, value })
      return value
    },
  })
  return {
    repositories: noted('repositories', related.repositories),
    repositoryNames: noted('repositoryNames', related.repositoryNames),
    people: noted('people', related.people),
    labels: noted('labels', related.labels),
    milestones: noted('milestones', related.milestones),
    teams: noted('teams', related.teams),
    pins: noted('pins', related.pins),
    publicUrl: related.publicUrl,
  }
}
