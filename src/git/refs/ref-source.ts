/** Where the names of a repository's refs are looked up. */
import { readRefs } from './refs.ts'

export interface RefSource {
  /** The repository that has the objects. */
  dir: string
  /** The object ids of these refs; null for a ref that does not exist. */
  read(refs: readonly string[]): Promise<ReadonlyMap<string, string | null>>
  /** Called with an id that leads to no object of the wanted kind. May throw when it once did. */
  onUnresolved?: (id: string) => Promise<void>
}

/** The refs that git has. */
export const gitRefs = (dir: string): RefSource => ({ dir, read: (refs) => readRefs(dir, refs) })

/** The object id of a ref; null when it does not exist. */
export const readRef = async (source: RefSource, ref: string): Promise<string | null> =>
  (await source.read([ref])).get(ref) ?? null
