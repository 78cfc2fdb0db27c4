/** The port to the keys that seal the texts of events. Its adapter is `rights/text-keys.ts`. */
import { StoreUnavailable } from '../store/event-store.ts'
import type { Erased } from './sealed-texts.ts'

export interface TextKey {
  id: string
  key: Buffer
}

export interface TextKeys {
  /** Creates a first block of keys in advance, so that no command waits for it. @throws StoreUnavailable */
  ahead(): Promise<void>
  /** Returns new keys, which are on disk and never reused. @throws StoreUnavailable */
  take(count: number): Promise<readonly TextKey[]>
  /** Returns unused keys to the pool. */
  giveBack(keys: readonly TextKey[]): void
  /** Finds keys by id; an erased key is replaced by its erasure, and a missing one is left out. @throws StoreUnavailable */
  find(ids: readonly string[]): Promise<ReadonlyMap<string, Buffer | Erased>>
  /** Destroys keys. Resolves to the number of destroyed keys when that is on disk. @throws StoreUnavailable */
  erase(ids: readonly string[], erased: Erased): Promise<number>
  /** Clears the cache: another node has destroyed keys. */
  forget(): void
}

const noKeys = async () => {
  throw new StoreUnavailable('the secret store is missing, so texts cannot be sealed')
}

/** Keys of a reader without secrets: all are missing. */
export const noTextKeys: TextKeys = {
  ahead: noKeys,
  take: noKeys,
  giveBack() {},
  find: async () => new Map(),
  erase: noKeys,
  forget() {},
}
