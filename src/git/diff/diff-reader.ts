/** Reads the output of `git diff` while it arrives and counts the changes of each file, holding one line at a time. */
import { textOfBytes } from '../objects/byte-names.ts'
import { splitAt } from '../process/split.ts'

export interface ChangedFile {
  /** The new name as text, also when it is not UTF-8. */
  name: string
  /** Only of a renamed file. */
  previousName?: string
  change: 'added' | 'deleted' | 'renamed' | 'modified'
  /** Added lines; 0 for a binary file. */
  additions: number
  deletions: number
}

/** The limits of reading a diff. */
export interface DiffBounds {
  /** Maximum number of counted lines of one file. */
  maxLines: number
  /** Maximum number of listed files. */
  maxFiles: number
  /** Maximum number of bytes held of a changed line. */
  maxLineCharacters: number
}

/** Maximum number of bytes held of a line that names a file. */
const MAX_HEADER_BYTES = 64 * 1024
const HEADER = 'diff --git '
const RENAME_FROM = 'rename from '
const RENAME_TO = 'rename to '
const FIRST_OF_HEADER = HEADER.charCodeAt(0)
const PLUS = '+'.charCodeAt(0)
const MINUS = '-'.charCodeAt(0)
const NEWLINE = 0x0a

/**
 * Makes a reader for the output of `git diff --no-color -p` with the prefixes `a/` and `b/`. `isFull` is true when
 * another file follows the last permitted one. The list is complete then, or when git has ended.
 */
export function readDiff({ maxLines, maxFiles, maxLineCharacters }: DiffBounds) {
  const files: ChangedFile[] = []
  let file: ChangedFile | undefined
  let inHunks = false
  let full = false

  function header(line: string): void {
    if (line.startsWith(HEADER)) {
      full = files.length === maxFiles
      if (full) return
      inHunks = false
      file = { name: nameInHeader(line), change: 'modified', additions: 0, deletions: 0 }
      files.push(file)
      return
    }
    if (file === undefined) return
    if (line.startsWith(RENAME_FROM)) {
      file.change = 'renamed'
      file.previousName = unquoted(line.slice(RENAME_FROM.length))
    } else if (line.startsWith(RENAME_TO)) file.name = unquoted(line.slice(RENAME_TO.length))
    else if (line.startsWith('new file mode ')) file.change = 'added'
    else if (line.startsWith('deleted file mode ')) file.change = 'deleted'
    else if (line.startsWith('@@ ')) inHunks = true
  }

  function changedLine(first: number | undefined): void {
    if (file === undefined || file.additions + file.deletions >= maxLines) return
    if (first === PLUS) file.additions += 1
    else if (first === MINUS) file.deletions += 1
  }

  const take = splitAt(
    NEWLINE,
    (line) => {
      if (full) return
      if (inHunks && line[0] !== FIRST_OF_HEADER) changedLine(line[0])
      else header(line.toString('latin1'))
    },
    // No line of a hunk begins with the first letter of a header.
    (first) => (inHunks && first !== FIRST_OF_HEADER ? maxLineCharacters : MAX_HEADER_BYTES),
  )
  return { take, files: () => files, isFull: () => full }
}

/** The name in `diff --git a/NAME b/NAME`. Wrong for a renamed file, whose name other lines give. */
function nameInHeader(line: string): string {
  const both = line.slice(HEADER.length)
  const half = unquoted(both.slice((both.length + 1) / 2))
  return half.slice('b/'.length)
}

const ESCAPES: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 }

/** Decodes a name that git printed, read as latin1. git quotes unusual characters as in C. */
export function unquoted(path: string): string {
  const bytes =
    path.startsWith('"') && path.endsWith('"')
      ? path.slice(1, -1).replace(/\\([0-7]{3}|.)/gs, (_, escaped: string) => {
          const code = /^\d/.test(escaped) ? Number.parseInt(escaped, 8) : ESCAPES[escaped]
          return code === undefined ? escaped : String.fromCharCode(code)
        })
      : path
  return textOfBytes(Buffer.from(bytes, 'latin1'))
}
