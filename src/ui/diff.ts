/** The diff between two commits as markup: limited in size, drawn file by file, and cached. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type DiffFile, LineType } from 'diff2html/lib/types.js'
import { createAnswerCache } from '../git/answer-cache.ts'
import { diffText } from '../git/diff.ts'
import type { TransferShare } from '../git/limits.ts'
import { type DiffBounds, diffFiles } from './diff-files.ts'

const BOUNDS: DiffBounds = { files: 200, lines: 2000, characters: 400 }
/** At most this much of git's output is read. */
const MAX_BYTES = 1024 * 1024
/** How many lines are drawn in one turn of the event loop, when no lines are compared word by word. */
const LINES_PER_TURN = 200

/**
 * Our own markup for diff2html, without styles, ids and controls. Names are not escaped yet: `{{…}}` escapes
 * them. Lines are escaped already. The prefix of a line is `+`, `-` or a blank.
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
 * The limit of the costs of word-by-word comparison, for all files of a diff together. The costs of two lines
 * are the squares of their word counts. This limit takes at most a quarter of a second.
 */
const MAX_COMPARING = 1_000_000

/** The costs for a file: diff2html compares the n-th deleted line with the n-th added one after it. */
function compareCosts({ blocks }: DiffFile): number {
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

/** An upper bound of the parts that are compared: words, blanks between them, other characters. */
const wordsIn = (line: string): number => line.match(/\w+|\s+|./gs)?.length ?? 0

/**
 * Draws files and yields to the event loop in between. Marks changed words in the first files, as long as the
 * costs stay within the limit.
 */
export async function drawnFiles(files: readonly DiffFile[]): Promise<string> {
  // Not at the start of the server: most of them never draw a diff.
  const { html: draw } = await import('diff2html')
  const parts: string[] = []
  let left = MAX_COMPARING
  let lines = 0
  for (const file of files) {
    const comparing = compareCosts(file)
    const isCompared = comparing <= left
    if (isCompared) left -= comparing
    // Without it only whole lines have colours.
    const maxLineLengthHighlight = isCompared ? BOUNDS.characters + 10 : 0
    parts.push(draw([file], { drawFileList: false, rawTemplates: TEMPLATES, maxLineLengthHighlight }))
    lines += file.blocks.reduce((sum, block) => sum + block.lines.length, 1)
    if (lines < LINES_PER_TURN && !(isCompared && comparing > 0)) continue
    lines = 0
    await nextTurn()
  }
  return parts.join('\n')
}

interface DrawnDiff {
  markup: string
  /** Whether the diff is longer than what is shown. */
  cut: boolean
}

const drawn = createAnswerCache<DrawnDiff>(32 * 1024 * 1024, ({ markup }) => 200 + 2 * markup.length)

/**
 * The diff between two commits, cached.
 * @throws GitFailed when a commit or one of its objects is missing; RepositoryMissing, GitUnavailable
 */
export function drawnDiff(
  dir: string,
  from: string,
  to: string,
  share: TransferShare,
  signal: AbortSignal,
): Promise<DrawnDiff> {
  const draw = async (unwanted: AbortSignal) => {
    const { text, complete } = await startOfDiff(dir, from, to, share, unwanted)
    const { files, cut } = diffFiles(text, complete, BOUNDS)
    return { markup: await drawnFiles(files), cut }
  }
  return drawn(`${dir}\0${from}\0${to}`, draw, signal)
}

/** The first part of git's output. Ends git when it has read enough. */
async function startOfDiff(dir: string, from: string, to: string, share: TransferShare, signal: AbortSignal) {
  const output = await diffText(dir, from, to, { kind: 'diff', binary: false, share, signal })
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
