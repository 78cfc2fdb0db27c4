/** Commits: reading what they say, and making new ones without a work tree. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { InvalidGitArgument } from './errors.ts'
import { branchRef, checkedId, EMPTY_TREE } from './names.ts'
import { type RefOutcome, updateRef } from './refs.ts'
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
}

/** More of one commit than this is not held. */
const MAX_COMMIT_BYTES = 1024 * 1024
const MAX_IDENTITY_LENGTH = 500

/**
 * What a commit says never changes. The key holds the directory too: that a commit is known from one
 * repository must not make it visible in another.
 */
const known = new LRUCache<string, CommitFacts>({
  maxSize: 32 * 1024 * 1024,
  sizeCalculation: (facts) => 500 + 2 * facts.message.length,
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
  })
  const input = [...unknown].map((sha) => `${sha}\n`).join('')
  await gitOutput(['cat-file', '--batch'], { dir, input, onOutput })
  return result
}

interface BatchObject {
  sha: string
  type: string
  /** The first bytes of the object. */
  content: Buffer
}

/** Splits what `cat-file --batch` says into objects, without ever holding a large one whole. */
function readBatch(found: (object: BatchObject) => void): (chunk: Buffer) => void {
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
      const wanted = part.subarray(0, Math.max(0, MAX_COMMIT_BYTES - object.heldBytes))
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
  }
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

export interface NewCommit {
  tree: string
  parents: readonly string[]
  /** Gets a newline at its end if it has none. */
  message: string
  author: Signature
  committer: Signature
}

/** Makes a commit object and gives its id; the same input always gives the same id. No ref moves. */
export async function commitTree(dir: string, commit: NewCommit): Promise<string> {
  if (commit.message.includes('\0')) throw new InvalidGitArgument('message', 'contains a NUL character')
  const parents = commit.parents.flatMap((parent) => ['-p', checkedId(parent)])
  const message = commit.message.endsWith('\n') ? commit.message : `${commit.message}\n`
  const env = { ...identity('AUTHOR', commit.author), ...identity('COMMITTER', commit.committer) }
  const args = ['commit-tree', ...parents, checkedId(commit.tree)]
  const output = await gitOutput(args, { dir, input: message, env })
  const sha = output.toString('latin1').trim()
  rememberMade(dir, sha, { ...commit, message }, env)
  return sha
}

/**
 * What we have just written need not be asked of git, as long as git wrote it to the letter; it takes some
 * characters off the ends of names, and then the id differs.
 */
function rememberMade(dir: string, sha: string, made: NewCommit, env: Record<string, string>): void {
  const line = (role: string) =>
    `${env[`GIT_${role}_NAME`]} <${env[`GIT_${role}_EMAIL`]}> ${env[`GIT_${role}_DATE`]?.slice(1)}`
  const headers = [
    `tree ${made.tree}`,
    ...made.parents.map((parent) => `parent ${parent}`),
    `author ${line('AUTHOR')}`,
    `committer ${line('COMMITTER')}`,
  ]
  const content = Buffer.from(`${headers.join('\n')}\n\n${made.message}`)
  const id = createHash('sha1').update(`commit ${content.length}\0`).update(content).digest('hex')
  if (id === sha && content.length <= MAX_COMMIT_BYTES) known.set(`${dir}\0${sha}`, parseCommit(sha, content))
}

function identity(role: 'AUTHOR' | 'COMMITTER', { name, email, date }: Signature): Record<string, string> {
  const cleanEmail = cleanIdentity(email)
  return {
    // git refuses an empty name, and one of nothing but the characters that it strips itself.
    [`GIT_${role}_NAME`]: /[^.,:;"'\\ ]/.test(cleanIdentity(name))
      ? cleanIdentity(name)
      : cleanEmail || 'unknown',
    [`GIT_${role}_EMAIL`]: cleanEmail,
    [`GIT_${role}_DATE`]: rawDate(date),
  }
}

function cleanIdentity(text: string): string {
  return text
    .replace(/[\p{Cc}<>]/gu, ' ')
    .trim()
    .slice(0, MAX_IDENTITY_LENGTH)
}

/** git's own form of a date: seconds since 1970 and the zone. */
function rawDate(iso: string): string {
  const time = Date.parse(iso)
  if (Number.isNaN(time) || time < 0)
    throw new InvalidGitArgument('date', `'${iso}' is not an ISO 8601 time after 1970`)
  const [, sign = '+', hours = '00', minutes = '00'] = /([+-])(\d\d):?(\d\d)$/.exec(iso.slice(10)) ?? []
  return `@${Math.floor(time / 1000)} ${sign}${hours}${minutes}`
}

export interface FirstCommit {
  branch: string
  /** Content by file name, at the top level of the tree. */
  files: ReadonlyMap<string, string | Uint8Array>
  message: string
  author: Signature
  committer: Signature
}

/**
 * Gives a branch that does not exist its first commit. `stale` when the branch exists; with the same
 * input `sha` is the same again, so a caller who repeats this after a crash can compare.
 */
export async function createFirstCommit(
  dir: string,
  { branch, files, message, author, committer }: FirstCommit,
): Promise<{ sha: string; outcome: RefOutcome }> {
  const ref = branchRef(branch)
  const entries: string[] = []
  for (const [name, content] of files) {
    const problem = fileNameProblem(name)
    if (problem !== undefined) throw new InvalidGitArgument('file name', problem)
    const blob = await gitOutput(['hash-object', '-w', '--stdin'], { dir, input: content })
    entries.push(`100644 blob ${blob.toString('latin1').trim()}\t${name}\0`)
  }
  const tree = (await gitOutput(['mktree', '-z'], { dir, input: entries.join('') })).toString('latin1').trim()
  const sha = await commitTree(dir, { tree, parents: [], message, author, committer })
  return { sha, outcome: await updateRef(dir, ref, { from: null, to: sha }) }
}

function fileNameProblem(name: string): string | undefined {
  if (name === '' || name === '.' || name === '..') return 'is empty, . or ..'
  if (name.toLowerCase() === '.git') return 'is .git'
  if (/[/\0]/.test(name)) return "contains '/' or a NUL character"
  return undefined
}
