/** Commits: what they say. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GitFailed, GitOutputTooLarge } from './errors.ts'
import { checkedId, EMPTY_TREE } from './names.ts'
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
 * What these commits say, by id, read by one command. Ids that are no commit of this repository are
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
  const onOutput = readBatch(({ sha, type, content }) => {
    if (type !== 'commit') return
    const facts = parseCommit(sha, content)
    known.set(`${dir}\0${sha}`, facts)
    result.set(sha, facts)
  }, MAX_COMMIT_BYTES)
  const input = [...unknown].map((sha) => `${sha}\n`).join('')
  await gitOutput(['cat-file', '--batch'], { dir, input, onOutput })
  return result
}

/**
 * The commit objects with these ids, to the last byte; all of them must exist.
 *
 * @throws GitFailed when one does not, GitOutputTooLarge when together they have more than 64 MB
 */
export async function rawCommits(dir: string, shas: readonly string[]): Promise<Map<string, Buffer>> {
  const result = new Map<string, Buffer>()
  let bytes = 0
  const split = readBatch(({ sha, type, content }) => {
    if (type === 'commit') result.set(sha, content)
  }, MAX_COMMITS_BYTES)
  const args = ['cat-file', '--batch']
  const onOutput = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_COMMITS_BYTES)
      throw new GitOutputTooLarge(`commits of more than ${MAX_COMMITS_BYTES} bytes`)
    split(chunk)
  }
  await gitOutput(args, { dir, input: shas.map((sha) => `${checkedId(sha)}\n`).join(''), onOutput })
  const absent = shas.find((sha) => !result.has(sha))
  if (absent !== undefined) throw new GitFailed(args, 0, `${absent} is no commit`)
  return result
}

interface BatchObject {
  sha: string
  type: string
  /** The first bytes of the object. */
  content: Buffer
}

/** Splits what `cat-file --batch` says into objects, without ever holding a large one whole. */
function readBatch(found: (object: BatchObject) => void, maxObjectBytes: number): (chunk: Buffer) => void {
  let header = Buffer.alloc(0)
  let object: { sha: string; type: string; left: number; held: Buffer[]; heldBytes: number } | undefined

  return (chunk) => {
    let rest = chunk
    while (rest.length > 0) {
      if (object === undefined) {
        const end = rest.indexOf(0x0a)
        header = Buffer.concat([header, end === -1 ? rest : rest.subarray(0, end)])
        if (end === -1) return
        rest = rest.subarray(end + 1)
        const [sha = '', type = '', size] = header.toString('latin1').split(' ')
        header = Buffer.alloc(0)
        // `<id> missing` has no size and no content; content is followed by a newline of its own.
        if (size !== undefined) object = { sha, type, left: Number(size) + 1, held: [], heldBytes: 0 }
        continue
      }
      const part = rest.subarray(0, object.left)
      rest = rest.subarray(part.length)
      object.left -= part.length
      const wanted = part.subarray(0, Math.max(0, maxObjectBytes - object.heldBytes))
      if (wanted.length > 0) object.held.push(wanted)
      object.heldBytes += wanted.length
      if (object.left > 0) continue
      const { sha, type } = object
      const content = Buffer.concat(object.held)
      found({ sha, type, content: content.at(-1) === 0x0a ? content.subarray(0, -1) : content })
      object = undefined
    }
  }
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

/** The id that a commit with this content has. */
export function commitId(content: Uint8Array): string {
  return createHash('sha1').update(`commit ${content.length}\0`).update(content).digest('hex')
}

/** What we have just written need not be asked of git, as long as git wrote it to the letter. */
export function rememberCommit(dir: string, sha: string, content: Buffer): void {
  if (commitId(content) !== sha || content.length > MAX_COMMIT_BYTES) return
  known.set(`${dir}\0${sha}`, parseCommit(sha, content))
}
