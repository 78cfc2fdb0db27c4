/**
 * Reads what `git diff` prints into the files that diff2html draws. By the counts in the heads of the hunks, so
 * that no line of a changed file can pass for a head; and no more than the bounds. Pure.
 */
import { type DiffBlock, type DiffFile, type DiffLine, LineType } from 'diff2html/lib/types.js'

export interface DiffBounds {
  files: number
  /** Of all files together. */
  lines: number
  /** Of one line; what is longer is cut. */
  characters: number
}

export interface DiffFiles {
  files: DiffFile[]
  /** Whether there is more than is in `files`. */
  cut: boolean
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/
const SIGNS = new Map([
  [' ', LineType.CONTEXT],
  ['+', LineType.INSERT],
  ['-', LineType.DELETE],
])

/** `complete`: false when the text was cut, so that its last line may be a part of one. */
export function diffFiles(text: string, complete: boolean, bounds: DiffBounds): DiffFiles {
  const lines = text.split('\n')
  lines.pop()
  const files: DiffFile[] = []
  let room = bounds.lines
  let file: DiffFile | undefined
  let block: DiffBlock | undefined
  /** Lines that the hunk still has of either side, and the number of the next one. */
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

/** One line: no more than so much of it, and with other ends of lines in it made visible. */
function shown(line: string, characters: number): string {
  const text = line.length > characters ? `${line.slice(0, characters)} …` : line
  return text.replace(/\r$/, '').replaceAll('\r', '␍')
}

/** The lines before the first hunk. */
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

/** Of `diff --git a/NAME b/NAME`: other lines tell the names when there are two. */
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

/** Git writes names that have unusual bytes between quotes, and those bytes as in C; a tab ends one with blanks. */
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
