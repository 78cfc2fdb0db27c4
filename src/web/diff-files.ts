/**
 * Parses the output of `git diff` into the files that diff2html draws, up to the given limits. It uses the line counts
 * of hunk headers, so a line of a changed file can't be mistaken for a header. Pure.
 */
import { type DiffBlock, type DiffFile, type DiffLine, LineType } from 'diff2html/lib/types.js'
import { unquoted } from '../git/diff/diff-reader.ts'

export interface DiffBounds {
  files: number
  /** Maximum number of lines in all files together. */
  lines: number
  /** Maximum length of a line, which is cut. */
  characters: number
  /** Maximum length of a file name, in characters. */
  nameCharacters: number
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
  let linesLeft = bounds.lines
  let file: DiffFile | undefined
  let block: DiffBlock | undefined
  /** Numbers of remaining lines of the hunk on each side, and the numbers of the next lines. */
  let oldLeft = 0
  let newLeft = 0
  let oldNumber = 0
  let newNumber = 0

  for (const line of lines) {
    const type = SIGNS.get(line.slice(0, 1))
    if (file !== undefined && block !== undefined && type !== undefined && oldLeft + newLeft > 0) {
      if (linesLeft === 0) return { files, cut: true }
      linesLeft -= 1
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
      const name = cutTo(sameName(line), bounds.nameCharacters)
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
    } else if (block === undefined) readHeadLine(file, line, bounds.nameCharacters)
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

const cutTo = (text: string, characters: number) =>
  text.length > characters ? `${text.slice(0, characters)} …` : text

/** One line, cut after `characters`. Makes carriage returns inside the line visible. */
function shown(line: string, characters: number): string {
  return cutTo(line, characters).replace(/\r$/, '').replaceAll('\r', '␍')
}

const FLAGS = [
  ['new file mode', 'isNew'],
  ['deleted file mode', 'isDeleted'],
  ['Binary files', 'isBinary'],
] as const

/** Reads a line before the first hunk into the file's names and flags. */
function readHeadLine(file: DiffFile, line: string, nameCharacters: number): void {
  const flag = FLAGS.find(([words]) => line.startsWith(words))?.[1]
  if (flag !== undefined) file[flag] = true
  const [, words, text = ''] = /^((?:rename|copy) (?:from|to)|---|\+\+\+) (.*)$/s.exec(line) ?? []
  if (words === undefined) return
  // Before some names is a directory: `a/` or `b/`.
  const path = cutTo(decoded(text), nameCharacters + 2)
  if (words.endsWith('from')) {
    file.isRename = true
    file.oldName = path
  } else if (words.endsWith('to')) {
    file.newName = path
  } else if (path !== '/dev/null') {
    if (words === '---') file.oldName = path.slice(2)
    file.newName = path.slice(2)
  }
}

/** The name in `diff --git a/NAME b/NAME`. When the two names differ, later lines have them. */
function sameName(line: string): string {
  const names = line.slice('diff --git '.length)
  return decoded(names.slice(0, (names.length - 1) / 2)).slice(2)
}

/** A file name as text. After a name with blanks, git adds a tab. */
function decoded(name: string): string {
  return unquoted(Buffer.from(name.replace(/\t$/, '')).toString('latin1'))
}
