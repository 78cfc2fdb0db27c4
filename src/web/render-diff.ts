/** Renders a diff. Runs in a thread: see `diff.ts`. Pure. */
import { html as draw } from 'diff2html'
import { type DiffFile, LineType } from 'diff2html/lib/types.js'
import { type DiffBounds, diffFiles } from './diff-files.ts'

const BOUNDS: DiffBounds = { files: 200, lines: 2000, characters: 400, nameCharacters: 1000 }

/** Git's output of a diff, and whether it is complete. */
export interface RawDiff {
  bytes: Uint8Array
  complete: boolean
}

export interface RenderedDiff {
  markup: string
  /** Whether a part of the diff is hidden. */
  cut: boolean
}

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
 * Maximum cost of word-by-word comparison, for all files of a diff together: at most a quarter of a second. The cost of
 * two lines is the sum of the squares of their word counts.
 */
const MAX_COST = 1_000_000

/** Returns the cost for a file: diff2html compares the n-th deleted line with the n-th added one after it. */
function compareCost({ blocks }: DiffFile): number {
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

/** An upper bound of the number of compared parts: words, blanks between them, other characters. */
const wordsIn = (line: string): number => line.match(/\w+|\s+|./gs)?.length ?? 0

/** Returns the markup of files. Marks changed words in the first files, up to the maximum cost. */
export function renderFiles(files: readonly DiffFile[]): string {
  let budget = MAX_COST
  return files
    .map((file) => {
      const cost = compareCost(file)
      const isCompared = cost <= budget
      if (isCompared) budget -= cost
      // With 0, only whole lines have colours.
      const maxLineLengthHighlight = isCompared ? BOUNDS.characters + 10 : 0
      return draw([file], { drawFileList: false, rawTemplates: TEMPLATES, maxLineLengthHighlight })
    })
    .join('\n')
}

/** Renders the part that is within the limits. */
export function renderDiff({ bytes, complete }: RawDiff): RenderedDiff {
  const { files, cut } = diffFiles(Buffer.from(bytes).toString('utf8'), complete, BOUNDS)
  return { markup: renderFiles(files), cut }
}
