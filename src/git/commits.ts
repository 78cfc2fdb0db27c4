/** Commits: what they say. */
import { LRUCache } from 'lru-cache'
import { type ObjectHeader, splitAnswers } from './batch-answers.ts'
import { GitFailed, GitOutputTooLarge } from './errors.ts'
import { checkedId, EMPTY_TREE } from './names.ts'
import { MAX_READ_BYTES } from './object-reader.ts'
import { objectReaders } from './object-readers.ts'
import { gitOutput } from './run.ts'

/** Who wrote or committed, and when: ISO 8601 in seconds with the writer's own zone (`…T10:00:00+02:00`). */
export interface Signature {
  name: string
  email: string
  date: string
}

export interface CommitFacts {
  sha: string
  tree: string
  parents: string[]
  author: Signature
  committer: Signature
  /** As it is stored, so mostly with a newline at its end; cut off when the commit is larger than 1 MB. */
  message: string
  /** Only of a signed commit: the signature as it stands in it, and all else, which is what was signed. */
  signed?: { signature: string; payload: string }
}

const SIGNATURE = 'gpgsig '
/** More of one commit than this is not held. */
const MAX_COMMIT_BYTES = 1024 * 1024
const MAX_COMMITS_BYTES = 64 * 1024 * 1024

/**
 * What a commit says never changes. The key holds the directory too: that a commit is known from one
 * repository must not make it visible in another.
 */
const known = new LRUCache<string, CommitFacts>({
  maxSize: 32 * 1024 * 1024,
  sizeCalculation: ({ message, signed }) =>
    500 + 2 * (message.length + (signed === undefined ? 0 : signed.signature.length + signed.payload.length)),
})

/**
 * What these commits say, by id. Ids that are no commit of this repository are
 * missing from the answer.
 *
 * @throws InvalidGitArgument for what is no object id
 */
export async function commitFacts(dir: string, shas: Iterable<string>): Promise<Map<string, CommitFacts>> {
  const result = new Map<string, CommitFacts>()
  const unknown = new Set<string>()
  for (const sha of shas) {
    const facts = known.get(`${dir}\0${checkedId(sha)}`)
    if (facts === undefined) unknown.add(sha)
    else result.set(sha, facts)
  }
  if (unknown.size === 0) return result
  const headers = await commitHeaders(dir, [...unknown])
  await readCommits(dir, headers, MAX_COMMIT_BYTES, (sha, content) => {
    const facts = parseCommit(sha, content)
    known.set(`${dir}\0${sha}`, facts)
    result.set(sha, facts)
  })
  return result
}

/**
 * The commit objects with these ids, to the last byte; all of them must exist.
 *
 * @throws GitFailed when one does not, GitOutputTooLarge when together they have more than 64 MB
 */
export async function rawCommits(dir: string, shas: readonly string[]): Promise<Map<string, Buffer>> {
  const result = new Map<string, Buffer>()
  const headers = await commitHeaders(dir, shas)
  if (headers.reduce((bytes, { size }) => bytes + size, 0) > MAX_COMMITS_BYTES)
    throw new GitOutputTooLarge(`commits of more than ${MAX_COMMITS_BYTES} bytes`)
  await readCommits(dir, headers, MAX_COMMITS_BYTES, (sha, content) => result.set(sha, content))
  const absent = shas.find((sha) => !result.has(sha))
  if (absent !== undefined) throw new GitFailed(['cat-file'], 0, `${absent} is no commit`)
  return result
}

async function commitHeaders(dir: string, shas: readonly string[]): Promise<ObjectHeader[]> {
  const headers = await objectReaders.headers(dir, shas)
  return headers.filter((header) => header !== undefined).filter(({ type }) => type === 'commit')
}

/** Gives `found` the beginning of each commit, no more than `maxBytes` of one. */
async function readCommits(
  dir: string,
  headers: readonly ObjectHeader[],
  maxBytes: number,
  found: (sha: string, content: Buffer) => void,
): Promise<void> {
  const isLarge = ({ size }: ObjectHeader) => size > MAX_READ_BYTES
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
  await gitOutput(['cat-file', '--batch'], { dir, input: input.join(''), onOutput })
}

function parseCommit(sha: string, content: Buffer): CommitFacts {
  const end = content.indexOf('\n\n')
  const head = end === -1 ? content : content.subarray(0, end)
  const body = end === -1 ? Buffer.alloc(0) : content.subarray(end + 2)
  const headers = head.toString('latin1').split('\n')
  const values = (key: string) =>
    headers.filter((line) => line.startsWith(`${key} `)).map((line) => line.slice(key.length + 1))
  const decode = decoder(values('encoding')[0])
  const signature = (key: string) => parseSignature(decode(Buffer.from(values(key)[0] ?? '', 'latin1')))
  return {
    sha,
    tree: values('tree')[0] ?? EMPTY_TREE,
    parents: values('parent'),
    author: signature('author'),
    committer: signature('committer'),
    message: decode(body),
    ...signatureOf(headers, body, decode),
  }
}

/** A header's value goes on in the lines after it that begin with a space. */
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
  return { signed: { signature: `${lines.join('\n')}\n`, payload: decode(payload) } }
}

/** Commits say in a header when their text is not UTF-8; what can't be read becomes U+FFFD. */
function decoder(label: string | undefined): (bytes: Buffer) => string {
  try {
    const text = new TextDecoder(label ?? 'utf-8', { ignoreBOM: true })
    return (bytes) => text.decode(bytes)
  } catch {
    return (bytes) => bytes.toString('utf8')
  }
}

function parseSignature(line: string): Signature {
  const match = /^(.*?) ?<([^>]*)>(?: (-?\d+))?(?: ([+-]\d{4}))?/.exec(line)
  const [, name = line, email = '', seconds = '0', zone = '+0000'] = match ?? []
  return { name, email, date: isoDate(Number(seconds), zone) }
}

/** Commits exist with times and zones that no calendar has; they get the epoch, in UTC. */
function isoDate(seconds: number, zone: string): string {
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(3, 5))
  const fits = Math.abs(seconds) < 253_402_214_400 && hours < 24 && minutes < 60
  if (!fits) return '1970-01-01T00:00:00+00:00'
  const offset = (zone.startsWith('-') ? -60 : 60) * (60 * hours + minutes)
  const local = new Date((seconds + offset) * 1000).toISOString().slice(0, 19)
  return `${local}${zone.slice(0, 3)}:${zone.slice(3, 5)}`
}

/** What we have just written need not be asked of git. */
export function rememberCommit(dir: string, sha: string, content: Buffer): void {
  if (content.length <= MAX_COMMIT_BYTES) known.set(`${dir}\0${sha}`, parseCommit(sha, content))
}
