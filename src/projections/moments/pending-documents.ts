/**
 * Holds changed documents back from the store: most events change the documents of those before, and to write a document with
 * its indexes takes longer than to fold an event. The documents that were changed least recently are written first.
 */
import type { AnyCollection, Change, Collection, Stored } from '../store/read-store.ts'
import { roughSize } from '../views/rough-size.ts'

/** Limit of the documents that are held back, in characters. */
const MAX_CHARACTERS = 8 * 1024 * 1024

interface Pending {
  change: Change
  /** The stored document; null without one, undefined when it was not read. */
  replaces: object | null | undefined
  characters: number
}

interface Store {
  stored<D extends object>(collection: AnyCollection, ids: readonly string[]): Stored<D>[]
  /** Writes the changes of one collection, each of another document. */
  write(changes: readonly Change[]): void
}

const isThere = <D extends object>(_: Collection<D>, one: Stored<object> | undefined): one is Stored<D> =>
  one !== undefined

export function createPendingDocuments({ stored, write }: Store) {
  /** By collection and id, those that were changed last at the end. */
  const pending = new Map<string, Pending>()
  let characters = 0

  function bodyOf({ change }: Pending): Stored<object> | undefined {
    return change.op === 'delete' ? undefined : change
  }

  /** Writes pending changes, the oldest first, until at most `most` characters are left. */
  function writeOldest(most: number): void {
    const byCollection = new Map<string, Change[]>()
    for (const [key, { change, replaces, characters: size }] of pending) {
      if (characters <= most && most > 0) break
      pending.delete(key)
      characters -= size
      // It was created and deleted since.
      if (change.op === 'delete' && replaces === null) continue
      const { name } = change.collection
      const changes = byCollection.get(name) ?? []
      byCollection.set(name, changes)
      changes.push(
        change.op === 'delete' || replaces === undefined ? withoutReplaced(change) : { ...change, replaces },
      )
    }
    for (const changes of byCollection.values()) write(changes)
  }

  return {
    async getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<Stored<D>[]> {
      const found: Stored<D>[] = []
      const missing = ids.filter((id) => {
        const known = pending.get(keyOf(collection, id))
        const body = known && bodyOf(known)
        if (isThere(collection, body)) found.push(body)
        return known === undefined
      })
      return missing.length === 0 ? found : [...found, ...stored<D>(collection, missing)]
    },
    /** Takes the changes that a fold has made of documents from `getMany`. */
    take(changes: readonly Change[]): void {
      for (const change of changes) {
        const key = keyOf(change.collection, change.id)
        const before = pending.get(key)
        pending.delete(key)
        const size = before?.characters ?? (change.op === 'put' ? roughSize(change.body) : 0)
        if (before === undefined) characters += size
        const known = change.op === 'put' ? change.replaces : undefined
        pending.set(key, {
          change,
          replaces: before === undefined ? known : before.replaces,
          characters: size,
        })
      }
      if (characters > MAX_CHARACTERS) writeOldest(MAX_CHARACTERS / 2)
    },
    writeAll: () => writeOldest(0),
  }
}

const keyOf = ({ name }: AnyCollection, id: string) => `${name} ${id}`

function withoutReplaced(change: Change): Change {
  if (change.op === 'delete') return change
  const { op, collection, id, position, body } = change
  return { op, collection, id, position, body }
}
