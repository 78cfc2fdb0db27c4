/**
 * Parses the output of `git diff` into the files that diff2html draws, up to the given limits. It counts the
 * lines of each hunk as the hunk's header says. So a line of a changed file can't be mistaken for a header.
 * Pure.
 */
import { type DiffBlock, type DiffFile, type DiffLine, LineType } from 'diff2html/lib/types.js'

export interface DiffBounds {
  files: number
  /** The limit for all files together. */
  lines: number
  /** The limit for one line. A longer line is cut. */
  characters: number
}

export interface DiffFiles {
  files: DiffFile[]
  /** Whether the diff is longer than `files`. */
  cut: boolean
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/
const SIGNS = new Map([
  [' ', LineType.CONTEXT],
  ['+', LineType.INSERT],
  ['-', LineType.DELETE],
])

/** Parses a diff. `complete` is false when the text was cut; then its last line may be incomplete. */
export function diffFiles(text: string, complete: boolean, bounds: DiffBounds): DiffFiles {
  const lines = text.split('\n')
  lines.pop()
  const files: DiffFile[] = []
  let room = bounds.lines
  let file: DiffFile | undefined
  let block: DiffBlock | undefined
  /** How many lines the hunk still has on each side, and the numbers of the next lines. */
  let oldLeft = 0
  let newLeft = 0
  let oldNumber = 0
  let newNumber = 0

  for (const line of lines) {
    const type = SIGNS.get(line.slice(0, 1))
    if (file !== undefined && block !== undefined && type !== undefined && oldLeft + newLeft > 0) {
      if (room === 0) return { files, cut: true }
      room -= 1
      const content = shown(line, bounds.characters)
      block.lines.push(diffLine(type, content, oldNumber, newNumber))
      if (type !== LineType.INSERT) {
        oldLeft -= 1
        oldNumber += 1
      }
      if (type !== LineType.DELETE) {
        newLeft -= 1
        newNumber += 1
      }
      if (type === LineType.INSERT) file.addedLines += 1
      if (type === LineType.DELETE) file.deletedLines += 1
      continue
    }
    if (line.startsWith('diff --git ')) {
      if (files.length === bounds.files) return { files, cut: true }
      const name = sameName(line)
      file = {
        oldName: name,
        newName: name,
        language: '',
        isCombined: false,
        isGitDiff: true,
        addedLines: 0,
        deletedLines: 0,
        blocks: [],
      }
      files.push(file)
      block = undefined
      oldLeft = 0
      newLeft = 0
      continue
    }
    if (file === undefined) continue
    const hunk = HUNK.exec(line)
    if (hunk !== null) {
      const [, oldStart, oldCount = 1, newStart, newCount = 1] = hunk
      oldNumber = Number(oldStart)
      oldLeft = Number(oldCount)
      newNumber = Number(newStart)
      newLeft = Number(newCount)
      block = {
        oldStartLine: oldNumber,
        newStartLine: newNumber,
        header: shown(line, bounds.characters),
        lines: [],
      }
      file.blocks.push(block)
    } else if (block === undefined) takeHead(file, line)
  }
  return { files, cut: !complete }
}

function diffLine(type: LineType, content: string, oldNumber: number, newNumber: number): DiffLine {
  switch (type) {
    case LineType.CONTEXT:
      return { type, content, oldNumber, newNumber }
    case LineType.INSERT:
      return { type, content, oldNumber: undefined, newNumber }
    case LineType.DELETE:
      return { type, content, oldNumber, newNumber: undefined }
  }
}

/** One line, cut after `characters`. Makes carriage returns inside the line visible. */
function shown(line: string, characters: number): string {
  const text = line.length > characters ? `${line.slice(0, characters)} …` : line
  return text.replace(/\r$/, '').replaceAll('\r', '␍')
}

/** Reads a line before the first hunk into the file's names and flags. */
function takeHead(file: DiffFile, line: string): void {
  const [, word = '', rest = ''] =
    /^(new file mode|deleted file mode|rename from|rename to|copy from|copy to|---|\+\+\+|Binary files) ?(.*)$/s.exec(
      line,
    ) ?? []
  switch (word) {
    case 'new file mode':
      file.isNew = true
      return
    case 'deleted file mode':
      file.isDeleted = true
      return
    case 'rename from':
    case 'copy from':
      file.isRename = true
      file.oldName = unquoted(rest)
      return
    case 'rename to':
    case 'copy to':
      file.newName = unquoted(rest)
      return
    case '---':
    case '+++': {
      const name = unquoted(rest)
      if (name === '/dev/null') return
      file.oldName = word === '---' ? name.slice(2) : file.oldName
      file.newName = name.slice(2)
      return
    }
    case 'Binary files':
      file.isBinary = true
  }
}

/** The name in `diff --git a/NAME b/NAME`. When the two names differ, later lines have them. */
function sameName(line: string): string {
  const names = line.slice('diff --git '.length)
  return unquoted(names.slice(0, (names.length - 1) / 2)).slice(2)
}

const ESCAPES = new Map([
  ['a', 7],
  ['b', 8],
  ['t', 9],
  ['n', 10],
  ['v', 11],
  ['f', 12],
  ['r', 13],
])

/**
 * Decodes a file name. Git puts a name with unusual bytes between quotes, with escapes as in C. After a name
 * with blanks it adds a tab.
 */
function unquoted(name: string): string {
  const whole = name.replace(/\t$/, '')
  if (!whole.startsWith('"')) return whole
  const text = Buffer.from(whole.slice(1, -1)).toString('latin1')
  return Buffer.from(text.replace(/\\([0-7]{3}|.)/gs, escaped), 'latin1').toString()
}

function escaped(_: string, code: string): string {
  const byte = /^\d/.test(code) ? Number.parseInt(code, 8) : ESCAPES.get(code)
  return byte === undefined ? code : String.fromCharCode(byte)
}
