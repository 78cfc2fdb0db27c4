/** Entries of trees: their types and names. */
import { bytesOfText, textOfBytes } from '../objects/byte-names.ts'

export interface TreeEntry {
  /** `40000`, `100644`, `100755`, `120000` or `160000`: normalized by `modeAsRead`. */
  mode: string
  /** Bytes in latin1: names need not be UTF-8. `nameOf` returns the text. */
  name: string
  id: string
}

/** A file, a link or a submodule, without its name. */
export interface FileAt {
  mode: '100644' | '100755' | '120000' | '160000'
  id: string
}

export type EntryKind = 'file' | 'dir' | 'symlink' | 'submodule'

const KINDS: ReadonlyMap<string, EntryKind> = new Map([
  ['40000', 'dir'],
  ['120000', 'symlink'],
  ['160000', 'submodule'],
])

export const kindOf = ({ mode }: Pick<TreeEntry, 'mode'>): EntryKind => KINDS.get(mode) ?? 'file'

const TYPE_BITS = 0o170000
const EXECUTABLE = 0o100

/**
 * Normalizes a mode like git. Old programs wrote directories as `040000` and files as `100664`, and pushes may have any
 * number: a mode of another type counts as a submodule.
 */
export function modeAsRead(written: string): string {
  const bits = Number.parseInt(written, 8)
  switch (bits & TYPE_BITS) {
    case 0o040000:
      return '40000'
    case 0o100000:
      return bits & EXECUTABLE ? '100755' : '100644'
    case 0o120000:
      return '120000'
    default:
      return '160000'
  }
}

/** The name as text, also when it is not UTF-8. */
export const nameOf = ({ name }: Pick<TreeEntry, 'name'>) => textOfBytes(Buffer.from(name, 'latin1'))

/** Encodes a text as the name of an entry. */
export const entryName = (text: string) => bytesOfText(text).toString('latin1')
