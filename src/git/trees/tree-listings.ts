/** Lists trees in pages: one folder, or everything below it. */

import { unpooledBuffer } from '../../concurrency/unpooled-buffer.ts'
import { limitReached } from '../../errors/limits.ts'
import { textOfBytes } from '../objects/byte-names.ts'
import { createAnswerCache } from '../process/answer-cache.ts'
import { GitOutputTooLarge } from '../process/errors.ts'
import { type GitOptions, gitOutput } from '../process/run.ts'
import { checkedId } from '../refs/names.ts'
import { nameOf, type TreeEntry } from './tree-entries.ts'
import { readTree } from './trees.ts'

export interface ListedEntry {
  /** The name in its folder; in a recursive listing, the path from the listed folder. */
  path: string
  /** Six octal digits. */
  mode: string
  type: 'blob' | 'tree' | 'commit'
  sha: string
}

/** A listing that is read in pages. */
export interface TreeListing {
  total: number
  page(skip: number, limit: number): ListedEntry[]
}

type ReadOptions = Pick<GitOptions, 'queue' | 'timeout' | 'signal'>

/** Maximum size of a recursive listing, in bytes: some 400,000 entries with paths of a hundred characters. */
const MAX_LISTING_BYTES = 64 * 1024 * 1024
/** Distance of the entries with a known offset. The search for a page starts at the last one before it. */
const STEP = 500

const typeOf = (mode: string): ListedEntry['type'] =>
  mode === '040000' ? 'tree' : mode === '160000' ? 'commit' : 'blob'

function listed(entry: TreeEntry): ListedEntry {
  const mode = entry.mode.padStart(6, '0')
  return { path: nameOf(entry), mode, type: typeOf(mode), sha: entry.id }
}

/** git's output, and the offset of each `STEP`th entry. */
interface RawListing {
  text: Buffer
  total: number
  starts: readonly number[]
}

const listings = createAnswerCache<RawListing>(
  MAX_LISTING_BYTES,
  ({ text, starts }) => 200 + text.length + 8 * starts.length,
)

/**
 * Lists a tree: one folder, or (`recursive`) all files and folders below it, in git's order.
 * @throws GitFailed for a missing tree; GitOutputTooLarge for hundreds of thousands of entries
 */
export async function listTree(
  dir: string,
  sha: string,
  { recursive }: { recursive: boolean },
  { signal, ...options }: ReadOptions = {},
): Promise<TreeListing> {
  if (!recursive) {
    const tree = await readTree(dir, checkedId(sha))
    return { total: tree.size, page: (skip, limit) => tree.page(skip, limit).map(listed) }
  }
  const args = ['ls-tree', '-r', '-t', '-z', '--full-tree', checkedId(sha)]
  const list = async (unwanted: AbortSignal) => await readListing(args, { ...options, dir, signal: unwanted })
  const found = await listings([dir, ...args].join('\0'), list, signal)
  return { total: found.total, page: (skip, limit) => pageOf(found, skip, limit) }
}

/** Counts the entries while they arrive. @throws GitOutputTooLarge */
async function readListing(args: readonly string[], options: GitOptions): Promise<RawListing> {
  const chunks: Buffer[] = []
  const starts = [0]
  let [size, total] = [0, 0]
  const onOutput = (chunk: Buffer) => {
    for (let end = chunk.indexOf(0); end !== -1; end = chunk.indexOf(0, end + 1)) {
      total += 1
      if (total % STEP === 0) starts.push(size + end + 1)
    }
    size += chunk.length
    chunks.push(chunk)
    if (size <= MAX_LISTING_BYTES) return
    limitReached('git_output_bytes')
    throw new GitOutputTooLarge(`a tree of more than ${MAX_LISTING_BYTES} bytes`)
  }
  await gitOutput(args, { ...options, onOutput })
  return { text: unpooledBuffer(Buffer.concat(chunks)), total, starts }
}

function pageOf({ text, total, starts }: RawListing, skip: number, limit: number): ListedEntry[] {
  const entries: ListedEntry[] = []
  if (skip >= total) return entries
  let at = starts[Math.floor(skip / STEP)] ?? 0
  for (let i = skip - (skip % STEP); i < Math.min(total, skip + limit); i++) {
    const end = text.indexOf(0, at)
    if (i >= skip) entries.push(entryIn(text.subarray(at, end)))
    at = end + 1
  }
  return entries
}

/** Reads `<mode> <type> <id>TAB<path>`. */
function entryIn(line: Buffer): ListedEntry {
  const tab = line.indexOf(0x09)
  const [mode = '', , sha = ''] = line.toString('latin1', 0, tab).split(' ')
  return { path: textOfBytes(line.subarray(tab + 1)), mode, type: typeOf(mode), sha }
}
