/** Wire forms of documents that many answers show, such as a repository and its owner: they are made once. */
import { LRUCache } from 'lru-cache'
import { shared } from '../http/answers/shared-parts.ts'

/** How many documents are remembered, for each kind; a few kilobytes each. */
const MOST = 1000

/**
 * Makes the wire form of a document, and gives the same one again for the same values, while the document is among those
 * that were shown last. Documents are never changed: a later version is another object.
 */
export function remembered<D extends object, Rest extends readonly unknown[], W extends object>(
  make: (document: D, ...rest: Rest) => W,
): (document: D, ...rest: Rest) => W {
  const made = new LRUCache<D, { rest: Rest; wire: W }>({ max: MOST })
  return (document, ...rest) => {
    const known = made.get(document)
    if (known?.rest.every((value, i) => value === rest[i])) return known.wire
    const wire = shared(make(document, ...rest))
    made.set(document, { rest, wire })
    return wire
  }
}
