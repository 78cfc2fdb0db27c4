/** Reads commits. */
import { LRUCache } from 'lru-cache'
import { limitReached } from '../../errors/limits.ts'
import { type ObjectHeader, splitAnswers } from '../objects/batch-answers.ts'
import { MAX_READ_BYTES } from '../objects/object-reader.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { GitFailed, GitOutputTooLarge } from '../process/errors.ts'
import { type GitOptions, gitOutput } from '../process/run.ts'
import { checkedId, EMPTY_TREE, isObjectId } from '../refs/names.ts'

/** Author or committer, with the time in ISO 8601 in seconds, in the writer's time zone (`…T10:00:00+02:00`). */
export interface Signature {
  name: string
  email: string
  date: string
}

export interface CommitFacts {
  sha: string
  tree: string
  /** The first 100. Honest commits have dozens at most. */
  parents: string[]
  author: Signature
  committer: Signature
  /** The stored message, cut off after 256 KiB. It usually ends with a newline. */
  message: string
  /** Only for a signed commit: its signature, and the signed text, which is the rest of the commit. */
  signed?: { signature: string; payload: string }
}

const SIGNATURE = 'gpgsig '
/** Maximum number of bytes read of a commit. */
const MAX_COMMIT_BYTES = 1024 * 1024
/**
 * Maximum size of a kept text: lists have fifty commits or more. The longest message that the server accepts fits, and
 * so does every real signature.
 */
const MAX_TEXT_BYTES = 256 * 1024
const MAX_SIGNATURE_BYTES = 64 * 1024
const MAX_NAME_CHARACTERS = 1000
const MAX_PARENTS = 100
const MAX_COMMITS_BYTES = 64 * 1024 * 1024

/**
 * A commit never changes. The key contains the directory, because a commit of one repository must not become
 * visible in another.
 */
const known = new LRUCache<string, CommitFacts>({ maxSize: 64 * 1024 * 1024 })

/** Caches facts with the size of the whole content: their strings may be slices that keep it in memory. */
function remember(dir: string, facts: CommitFacts, content: Buffer): void {
  const { sha, message, signed } = facts
  const texts = message.length + (signed === undefined ? 0 : signed.signature.length + signed.payload.length)
  known.set(`${dir}\0${sha}`, facts, { size: 500 + 2 * (content.length + texts) })
}

/**
 * Reads these commits, by id. Leaves out ids that are not commits of this repository.
 * @throws InvalidGitArgument when an id is malformed
 */
export async function commitFacts(
  dir: string,
  shas: Iterable<string>,
  options: Pick<GitOptions, 'queue' | 'signal'> = {},
): Promise<Map<string, CommitFacts>> {
  const result = new Map<string, CommitFacts>()
  const unknown = new Set<string>()
  for (const sha of shas) {
    const facts = known.get(`${dir}\0${checkedId(sha)}`)
    if (facts === undefined) unknown.add(sha)
    else result.set(sha, facts)
  }
  if (unknown.size === 0) return result
  const headers = await commitHeaders(dir, [...unknown])
  await readCommits(dir, headers, MAX_COMMIT_BYTES, options, (sha, content) => {
    const facts = parseCommit(sha, content)
    remember(dir, facts, content)
    result.set(sha, facts)
  })
  return result
}

/** Batch size of reads of many commits or tags. */
const READ_AT_ONCE = 50

/**
 * Returns the result of `make` for each of these commits or tags, by id, as `read` returns them. Reads them in batches: a
 * push may bring thousands of large ones.
 */
export async function fromEach<Facts, T>(
  shas: Iterable<string>,
  read: (shas: readonly string[]) => Promise<ReadonlyMap<string, Facts>>,
  make: (facts: Facts) => T,
): Promise<Map<string, T>> {
  const result = new Map<string, T>()
  const ids = [...new Set(shas)]
  for (let i = 0; i < ids.length; i += READ_AT_ONCE) {
    for (const [sha, facts] of await read(ids.slice(i, i + READ_AT_ONCE))) result.set(sha, make(facts))
  }
  return result
}

/** Returns the result of `make` for each of these commits, by id. Reads them in batches. */
export const fromCommits = <T>(dir: string, shas: Iterable<string>, make: (facts: CommitFacts) => T) =>
  fromEach(shas, (part) => commitFacts(dir, part), make)

/**
 * Returns the exact content of these commits, by id.
 * @throws GitFailed when one does not exist, GitOutputTooLarge when together they have more than 64 MB
 */
export async function rawCommits(dir: string, shas: readonly string[]): Promise<Map<string, Buffer>> {
  const result = new Map<string, Buffer>()
  const headers = await commitHeaders(dir, shas)
  if (headers.reduce((bytes, { size }) => bytes + size, 0) > MAX_COMMITS_BYTES) {
    limitReached('git_output_bytes')
    throw new GitOutputTooLarge(`commits of more than ${MAX_COMMITS_BYTES} bytes`)
  }
  await readCommits(dir, headers, MAX_COMMITS_BYTES, {}, (sha, content) => result.set(sha, content))
  const absent = shas.find((sha) => !result.has(sha))
  if (absent !== undefined) throw new GitFailed(['cat-file'], 0, `${absent} is not a commit`)
  return result
}

/**
 * Returns the first of these commits, at least one, that together have at most this many bytes. Missing commits count as
 * empty.
 */
export async function commitsWithin(
  dir: string,
  shas: readonly string[],
  maxBytes: number,
): Promise<string[]> {
  let left = maxBytes
  const headers = await objectReaders.headers(dir, shas)
  const end = headers.findIndex((header, i) => {
    left -= Math.min(header?.size ?? 0, MAX_COMMIT_BYTES)
    return i > 0 && left < 0
  })
  return end === -1 ? [...shas] : shas.slice(0, end)
}

async function commitHeaders(dir: string, shas: readonly string[]): Promise<ObjectHeader[]> {
  const headers = await objectReaders.headers(dir, shas)
  return headers.filter((header) => header !== undefined).filter(({ type }) => type === 'commit')
}

/** Calls `found` with the content of each commit, or with its first `maxBytes` bytes. */
async function readCommits(
  dir: string,
  headers: readonly ObjectHeader[],
  maxBytes: number,
  options: Pick<GitOptions, 'queue' | 'signal'>,
  found: (sha: string, content: Buffer) => void,
): Promise<void> {
  const isLarge = ({ size }: ObjectHeader) => size > Math.min(maxBytes, MAX_READ_BYTES)
  const small = headers.filter((header) => !isLarge(header))
  await objectReaders.contents(dir, small, ({ sha }, content) => found(sha, content))
  const input = headers.filter(isLarge).map(({ sha }) => `${sha}\n`)
  if (input.length === 0) return
  const onOutput = splitAnswers({
    wants: () => maxBytes,
    found(answer) {
      if (typeof answer !== 'string') found(answer.sha, answer.content)
    },
  })
  await gitOutput(['cat-file', '--batch'], { ...options, dir, input: input.join(''), onOutput })
}

/** Splits the content of a commit. `values` gives the values of all headers with a name, read as latin1. */
export function splitCommit(content: Buffer) {
  const end = content.indexOf('\n\n')
  const headers = content.toString('latin1', 0, end === -1 ? content.length : end).split('\n')
  const values = (key: string) =>
    headers.filter((line) => line.startsWith(`${key} `)).map((line) => line.slice(key.length + 1))
  return { headers, values, body: end === -1 ? Buffer.alloc(0) : content.subarray(end + 2) }
}

/** End of the relevant parents, in bytes: after a line for the tree and one for each parent. */
const END_OF_PARENTS = 46 + 48 * MAX_PARENTS

/** Removes the parents beyond the limit: splitting them into lines would take long. */
function withoutExcessParents(content: Buffer): Buffer {
  if (content.toString('latin1', END_OF_PARENTS, END_OF_PARENTS + 7) !== 'parent ') return content
  const author = content.indexOf('\nauthor ', END_OF_PARENTS)
  const rest = author === -1 ? Buffer.alloc(0) : content.subarray(author + 1)
  return Buffer.concat([content.subarray(0, END_OF_PARENTS), rest])
}

function parseCommit(sha: string, content: Buffer): CommitFacts {
  const { headers, values, body } = splitCommit(withoutExcessParents(content))
  const decode = decoder(values('encoding')[0])
  const signature = (key: string) => parseSignature(decode(Buffer.from(values(key)[0] ?? '', 'latin1')))
  return {
    sha,
    tree: values('tree')[0] ?? EMPTY_TREE,
    // The last parent may be cut off.
    parents: values('parent').slice(0, MAX_PARENTS).filter(isObjectId),
    author: signature('author'),
    committer: signature('committer'),
    message: decode(body.subarray(0, MAX_TEXT_BYTES)),
    ...signatureOf(headers, body, decode),
  }
}

/** Finds the signature. A header's value continues in the next lines that begin with a space. */
function signatureOf(
  headers: readonly string[],
  body: Buffer,
  decode: (bytes: Buffer) => string,
): Pick<CommitFacts, 'signed'> {
  const start = headers.findIndex((line) => line.startsWith(SIGNATURE))
  if (start === -1) return {}
  const after = headers.findIndex((line, i) => i > start && !line.startsWith(' '))
  const end = after === -1 ? headers.length : after
  const lines = headers.slice(start, end).map((line, i) => line.slice(i === 0 ? SIGNATURE.length : 1))
  const others = [...headers.slice(0, start), ...headers.slice(end)].map((line) => `${line}\n`).join('')
  const payload = Buffer.concat([Buffer.from(`${others}\n`, 'latin1'), body])
  const signature = Buffer.from(`${lines.join('\n')}\n`).toString('utf8', 0, MAX_SIGNATURE_BYTES)
  return { signed: { signature, payload: decode(payload.subarray(0, MAX_TEXT_BYTES)) } }
}

/** A commit's header names its encoding when it is not UTF-8. Bytes that can't be decoded become U+FFFD. */
function decoder(label: string | undefined): (bytes: Buffer) => string {
  try {
    const text = new TextDecoder(label ?? 'utf-8', { ignoreBOM: true })
    return (bytes) => text.decode(bytes)
  } catch {
    return (bytes) => bytes.toString('utf8')
  }
}

/**
 * Parses the value of an author, committer or tagger header. The address begins at the first `<`: trying later ones takes
 * minutes for a megabyte of them, which a push may have.
 */
export function parseSignature(line: string): Signature {
  const match = /^([^<]*?) ?<([^>]*)>(?: (-?\d+))?(?: ([+-]\d{4}))?/.exec(line)
  const [, name = line, email = '', seconds = '0', zone = '+0000'] = match ?? []
  return {
    name: beginningOf(name, MAX_NAME_CHARACTERS),
    email: beginningOf(email, MAX_NAME_CHARACTERS),
    date: isoDate(Number(seconds), zone),
  }
}

/** Returns the first characters of a text, as a copy: a substring keeps the whole text in memory. */
export function beginningOf(text: string, characters: number): string {
  return text.length <= characters ? text : Buffer.from(text.slice(0, characters)).toString()
}

/** A bound beyond the year 9999, in milliseconds. */
const MAX_TIME_MS = 1e15

/**
 * Formats a time in ISO 8601. Impossible times and zones become the epoch in UTC, and so do local years without exactly
 * four digits, which clients can't parse.
 */
function isoDate(seconds: number, zone: string): string {
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(3, 5))
  const offset = (zone.startsWith('-') ? -60 : 60) * (60 * hours + minutes)
  const local = (seconds + offset) * 1000
  const text = Math.abs(local) < MAX_TIME_MS ? new Date(local).toISOString() : ''
  // `toISOString` writes other years with a sign and six digits.
  if (!/^\d{4}-/.test(text) || hours > 23 || minutes > 59) return '1970-01-01T00:00:00+00:00'
  return `${text.slice(0, 19)}${zone.slice(0, 3)}:${zone.slice(3, 5)}`
}

/** Caches a commit that we have just written, so that it need not be read. */
export function cacheCommit(dir: string, sha: string, content: Buffer): void {
  if (content.length <= MAX_COMMIT_BYTES) remember(dir, parseCommit(sha, content), content)
}
