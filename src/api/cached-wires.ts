/** A cache of wire forms that many answers show, such as a repository and its owner. */
import { LRUCache } from 'lru-cache'
import { withCachedJson } from '../http/answers/cached-json.ts'

/** Maximum number of cached documents of each kind; a few kilobytes each. */
const MAX_DOCUMENTS = 1000

/**
 * Returns `make` with a cache: the same document with the same further values gets the same wire form. Documents are
 * immutable: a later version is another object.
 */
export function cachedWire<D extends object, Rest extends readonly unknown[], W extends object>(
  make: (document: D, ...rest: Rest) => W,
): (document: D, ...rest: Rest) => W {
  const cache = new LRUCache<D, { rest: Rest; wire: W }>({ max: MAX_DOCUMENTS })
  return (document, ...rest) => {
    const cached = cache.get(document)
    if (cached?.rest.every((value, i) => value === rest[i])) return cached.wire
    const wire = withCachedJson(make(document, ...rest))
    cache.set(document, { rest, wire })
    return wire
  }
}
