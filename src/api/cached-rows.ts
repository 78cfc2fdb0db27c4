/** A cache of list rows and their JSON. A row is valid while everything that it shows is the same. */
import { LRUCache } from 'lru-cache'
import { withCachedJson } from '../http/answers/cached-json.ts'
import { LONG_DOCUMENT } from '../projections/store/read-store.ts'
import { roughSize } from '../projections/views/rough-size.ts'
import type { RelatedDocuments } from './related-documents.ts'

/** Maximum size of the documents of the cached rows, in characters, per kind of row: about a thousand usual rows. */
const MAX_CHARACTERS = 2 * 1024 * 1024

type Kind = Exclude<keyof RelatedDocuments, 'publicUrl'>

/** A look-up of a row, with its result. */
interface Lookup {
  kind: Kind
  id: number
  value: unknown
}

/**
 * Returns `make` with a cache: a document gets the same row while all look-ups of `make` have the same results. Documents
 * and wire forms are immutable: a later version is another object.
 */
export function cachedRow<D extends object, W extends object>(
  make: (document: D, related: RelatedDocuments) => W,
): (document: D, related: RelatedDocuments) => W {
  const cache = new LRUCache<D, { row: W; lookups: readonly Lookup[]; publicUrl: string }>({
    maxSize: MAX_CHARACTERS,
    maxEntrySize: LONG_DOCUMENT,
    sizeCalculation: (_, document) => roughSize(document),
  })
  return (document, related) => {
    const { publicUrl } = related
    const cached = cache.get(document)
    const isSame = ({ kind, id, value }: Lookup) => related[kind].get(id) === value
    if (cached?.publicUrl === publicUrl && cached.lookups.every(isSame)) return cached.row
    const lookups: Lookup[] = []
    const row = withCachedJson(make(document, recordingLookups(related, lookups)))
    cache.set(document, { row, lookups, publicUrl })
    return row
  }
}

/** Returns the same documents; each look-up is added to `lookups`. */
function recordingLookups(related: RelatedDocuments, lookups: Lookup[]): RelatedDocuments {
  const recorded = <V>(kind: Kind, documents: { get(id: number): V | undefined }) => ({
    get(id: number): V | undefined {
      const value = documents.get(id)
      lookups.push({ kind, id, value })
      return value
    },
  })
  return {
    repositories: recorded('repositories', related.repositories),
    repositoryNames: recorded('repositoryNames', related.repositoryNames),
    people: recorded('people', related.people),
    labels: recorded('labels', related.labels),
    milestones: recorded('milestones', related.milestones),
    teams: recorded('teams', related.teams),
    pins: recorded('pins', related.pins),
    publicUrl: related.publicUrl,
  }
}
