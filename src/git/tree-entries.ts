/** The entries of trees: what they are, and how their names are written. */

export interface TreeEntry {
  /** `40000`, `100644`, `100755`, `120000` or `160000`. */
  mode: string
  /** Its bytes, as latin1: names need not be UTF-8. `nameOf` gives the text. */
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

/** The name as text; bytes that are not UTF-8 become U+FFFD. */
export const nameOf = ({ name }: Pick<TreeEntry, 'name'>) => Buffer.from(name, 'latin1').toString('utf8')

/** A text as the name of an entry. */
export const entryName = (text: string) => Buffer.from(text, 'utf8').toString('latin1')
