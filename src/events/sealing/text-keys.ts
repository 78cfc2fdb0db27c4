/** The port to the keys that seal the texts of events. Its adapter is `rights/text-keys.ts`. */
import { StoreUnavailable } from '../store/event-store.ts'
import type { Erased } from './sealed-texts.ts'

export interface TextKey {
  id: string
  key: Buffer
}

export interface TextKeys {
  /** Makes a first block of keys, so that no command waits for it. @throws StoreUnavailable */
  ahead(): Promise<void>
  /**
   * Gives out new keys, which are on disk and are never given out again. @throws StoreUnavailable when none can be made
   */
  take(count: number): Promise<readonly TextKey[]>
  /** Takes back keys that have sealed nothing. */
  giveBack(keys: readonly TextKey[]): void
  /** The keys with these ids, or who destroyed them. Those that are missing are left out. @throws StoreUnavailable */
  find(ids: readonly string[]): Promise<ReadonlyMap<string, Buffer | Erased>>
  /**
   * Destroys the keys that are still there. Resolves when that is on disk, to the number of keys.
   * @throws StoreUnavailable
   */
  erase(ids: readonly string[], erased: Erased): Promise<number>
  /** Forgets the keys in memory: another node has destroyed some. */
  forget(): void
}

const noKeys = async () => {
  throw new StoreUnavailable('there are no secrets, so no text can be sealed')
}

/** For a reader where there are no secrets: all keys are missing. */
export const noTextKeys: TextKeys = {
  ahead: noKeys,
  take: noKeys,
  giveBack() {},
  find: async () => new Map(),
  erase: noKeys,
  forget() {},
}
