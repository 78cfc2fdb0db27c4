/** The difference between two commits as markup: bounded, drawn a file at a time, and kept. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { html as draw } from 'diff2html'
import { type DiffFile, LineType } from 'diff2html/lib/types.js'
import { html } from 'ghtml'
import { createAnswerCache } from '../git/answer-cache.ts'
import { diffText } from '../git/diff.ts'
import { type DiffBounds, diffFiles } from './diff-files.ts'

const BOUNDS: DiffBounds = { files: 200, lines: 2000, characters: 400 }
/** No more than this of what git prints is read. */
const MAX_BYTES = 1024 * 1024
/** So many lines are drawn in one turn, where none are compared. */
const LINES_PER_TURN = 200

/**
 * Markup of our own, without styles, ids and controls. Names come raw and are escaped here (`{{…}}`); lines come
 * escaped, and what stands before them is `+`, `-` or a blank.
 */
const TEMPLATES = {
  'generic-wrapper': '{{{content}}}',
  'generic-file-path': '<bdi>{{fileDiffName}}</bdi> {{>fileTag}}',
  'generic-block-header': '<tr class="hunk"><td colspan="4">{{{blockHeader}}}</td></tr>',
  'generic-empty-diff': '<tr class="hunk"><td colspan="4">No lines to show</td></tr>',
  'generic-line':
    '<tr class="{{type}}">{{{lineNumber}}}<td class="sign">{{{prefix}}}</td><td class="code">{{{content}}}</td></tr>',
  'line-by-line-numbers': '<td class="n">{{oldNumber}}</td><td class="n">{{newNumber}}</td>',
  'line-by-line-file-diff':
    '<section class="file"><h3>{{{filePath}}}</h3><table><tbody>{{{diffs}}}</tbody></table></section>',
  'tag-file-added': '<span class="tag">added</span>',
  'tag-file-deleted': '<span class="tag">deleted</span>',
  'tag-file-renamed': '<span class="tag">renamed</span>',
  'tag-file-changed': '',
  'icon-file': '',
}

/**
 * Comparing two lines can take the square of the words and signs in them. So much of that, for all files of a
 * difference together, takes a quarter of a second at worst.
 */
const MAX_COMPARING = 1_000_000

/** What comparing takes: of deleted lines and the added ones right behind them, the n-th with the n-th. */
function comparingOf({ blocks }: DiffFile): number {
  let sum = 0
  for (const { lines } of blocks) {
    let deleted: number[] = []
    let added = 0
    for (const { type, content } of lines) {
      if (type === LineType.INSERT) {
        const other = deleted[added]
        if (other !== undefined) sum += other ** 2 + wordsIn(content) ** 2
        added += 1
        continue
      }
      if (type === LineType.CONTEXT || added > 0) deleted = []
      added = 0
      if (type === LineType.DELETE) deleted.push(wordsIn(content))
    }
  }
  return sum
}

/** No fewer than what is compared one by one: words, blanks between them, other characters. */
const wordsIn = (line: string): number => line.match(/\w+|\s+|./gs)?.length ?? 0

/** A file's name and lines: changed words are marked, or lines are coloured as wholes alone. */
function drawnFile(file: DiffFile, isCompared: boolean): string {
  const maxLineLengthHighlight = isCompared ? BOUNDS.characters + 10 : 0
  return draw([file], { drawFileList: false, rawTemplates: TEMPLATES, maxLineLengthHighlight })
}

/** Draws files, in turns of its own. Words are compared as long as that does not take too long for all of them. */
export async function drawnFiles(files: readonly DiffFile[]): Promise<string> {
  const parts: string[] = []
  let left = MAX_COMPARING
  let lines = 0
  for (const file of files) {
    const comparing = comparingOf(file)
    const isCompared = comparing <= left
    if (isCompared) left -= comparing
    parts.push(drawnFile(file, isCompared))
    lines += file.blocks.reduce((sum, block) => sum + block.lines.length, 1)
    if (lines < LINES_PER_TURN && !(isCompared && comparing > 0)) continue
    lines = 0
    await nextTurn()
  }
  return parts.join('\n')
}

export interface DrawnDiff {
  markup: string
  /** Whether there is more than is shown. */
  cut: boolean
}

const drawn = createAnswerCache<DrawnDiff>(32 * 1024 * 1024, ({ markup }) => 200 + 2 * markup.length)

/**
 * @throws GitFailed when a commit, or what belongs to it, is not there; RepositoryMissing, GitUnavailable
 */
export function drawnDiff(dir: string, from: string, to: string): Promise<DrawnDiff> {
  return drawn(`${dir}\0${from}\0${to}`, () => drawDiff(dir, from, to))
}

async function drawDiff(dir: string, from: string, to: string): Promise<DrawnDiff> {
  const { text, complete } = await beginning(dir, from, to)
  const { files, cut } = diffFiles(text, complete, BOUNDS)
  return { markup: await drawnFiles(files), cut }
}

/** The first part of what git says, which is ended then. */
async function beginning(
  dir: string,
  from: string,
  to: string,
): Promise<{ text: string; complete: boolean }> {
  const output = await diffText(dir, from, to, { kind: 'diff', binary: false })
  if (Buffer.isBuffer(output)) return { text: output.toString('utf8'), complete: true }
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of output) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= MAX_BYTES) return { text: Buffer.concat(chunks).toString('utf8'), complete: false }
  }
  return { text: Buffer.concat(chunks).toString('utf8'), complete: true }
}

/** What is said below a diff that is cut. */
export function cutLine(wholeUrl: string): string {
  return html`<p class="cut">This is the beginning of a large difference. <a href="${wholeUrl}">All of it, as text</a></p>`
}
