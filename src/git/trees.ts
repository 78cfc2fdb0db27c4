/** Reads trees: one folder, or all that is below it. */
import { LRUCache } from 'lru-cache'
import { limitReached } from '../limits.ts'
import { createAnswerCache } from './answer-cache.ts'
import { GitFailed, GitOutputTooLarge } from './errors.ts'
import { checkedId, EMPTY_TREE } from './names.ts'
import { MAX_READ_BYTES } from './object-reader.ts'
import { objectReaders } from './object-readers.ts'
import { type GitOptions, gitOutput } from './run.ts'

export interface TreeEntry {
  /** The name in its folder; in a listing of all that is below a folder, the path from there. */
  path: string
  /** Six octal digits. */
  mode: string
  type: 'blob' | 'tree' | 'commit'
  sha: string
}

/** A listing, of which pages are read. */
export interface TreeListing {
  total: number
  page(skip: number, limit: number): TreeEntry[]
}

type ReadOptions = Pick<GitOptions, 'queue' | 'timeout' | 'signal'>

/** Bytes of a listing. A path of a hundred characters makes it 400,000 entries. */
const MAX_LISTING_BYTES = 64 * 1024 * 1024
/** A page is looked for from the last of these entries before it. */
const STEP = 500

const folders = new LRUCache<string, readonly TreeEntry[]>({
  maxSize: 16 * 1024 * 1024,
  sizeCalculation: (entries) => 100 + entries.reduce((size, { path }) => size + 150 + 2 * path.length, 0),
})

/**
 * The entries of one folder, in git's order. Undefined when there is no such tree.
 *
 * @throws GitOutputTooLarge for a folder of more than a megabyte
 */
export async function readTree(dir: string, sha: string): Promise<readonly TreeEntry[] | undefined> {
  if (sha === EMPTY_TREE) return []
  const key = `${dir}\0${checkedId(sha)}`
  const before = folders.get(key)
  if (before !== undefined) return before
  const [header] = await objectReaders.headers(dir, [sha])
  if (header?.type !== 'tree') return undefined
  let entries: readonly TreeEntry[] | undefined
  await objectReaders.contents(dir, [header], (_, content) => {
    entries = entriesIn(content)
    folders.set(key, entries)
  })
  return entries
}

/** Splits a tree object: `<mode> <name>NUL<20 bytes of the id>` for each entry. */
function entriesIn(content: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = []
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const end = content.indexOf(0, space)
    if (space === -1 || end === -1) break
    const mode = content.toString('latin1', at, space).padStart(6, '0')
    const sha = content.toString('hex', end + 1, end + 21)
    entries.push({ path: content.toString('utf8', space + 1, end), mode, type: typeOf(mode), sha })
    at = end + 21
  }
  return entries
}

const typeOf = (mode: string): TreeEntry['type'] =>
  mode === '040000' ? 'tree' : mode === '160000' ? 'commit' : 'blob'

/** A listing as git wrote it, and where each `STEP`th entry begins. */
interface Written {
  text: Buffer
  total: number
  starts: readonly number[]
}

const listings = createAnswerCache<Written>(
  MAX_LISTING_BYTES,
  ({ text, starts }) => text.length + 8 * starts.length,
)

/**
 * A tree: one folder, or (`recursive`) all files and folders below it, in git's order.
 *
 * @throws GitFailed when there is no such tree; GitOutputTooLarge when it has hundreds of thousands of entries
 */
export async function listTree(
  dir: string,
  sha: string,
  { recursive }: { recursive: boolean },
  { signal, ...options }: ReadOptions = {},
): Promise<TreeListing> {
  if (!recursive) {
    const [header] = sha === EMPTY_TREE ? [] : await objectReaders.headers(dir, [checkedId(sha)])
    if (header === undefined || header.size <= MAX_READ_BYTES) {
      const entries = await readTree(dir, sha)
      if (entries === undefined) throw new GitFailed(['cat-file'], 0, `${sha} is not a tree`)
      return { total: entries.length, page: (skip, limit) => entries.slice(skip, skip + limit) }
    }
  }
  const args = ['ls-tree', ...(recursive ? ['-r', '-t'] : []), '-z', '--full-tree', checkedId(sha)]
  const list = async (unwanted: AbortSignal) => await written(args, { ...options, dir, signal: unwanted })
  const found = await listings([dir, ...args].join('\0'), list, signal)
  return { total: found.total, page: (skip, limit) => pageOf(found, skip, limit) }
}

/** Counts the entries while they arrive. @throws GitOutputTooLarge */
async function written(args: readonly string[], options: GitOptions): Promise<Written> {
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
  return { text: Buffer.concat(chunks), total, starts }
}

function pageOf({ text, total, starts }: Written, skip: number, limit: number): TreeEntry[] {
  const entries: TreeEntry[] = []
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
function entryIn(line: Buffer): TreeEntry {
  const tab = line.indexOf(0x09)
  const [mode = '', , sha = ''] = line.toString('latin1', 0, tab).split(' ')
  return { path: line.toString('utf8', tab + 1), mode, type: typeOf(mode), sha }
}
