/** Makes commits without a work tree. */
import { cacheCommit, type Signature } from './commits.ts'
import { GitFailed, InvalidGitArgument } from './errors.ts'
import { storeObject } from './loose-objects.ts'
import { branchRef, checkedId } from './names.ts'
import { objectReaders } from './object-readers.ts'
import { type RefOutcome, updateRef } from './refs.ts'
import { signedContent } from './signatures.ts'

const MAX_IDENTITY_LENGTH = 500

export interface NewCommit {
  tree: string
  parents: readonly string[]
  /** A newline is added at the end if there is none. */
  message: string
  author: Signature
  committer: Signature
  /** Absolute path of the private SSH key, without a passphrase, that signs the commit. */
  signingKey?: string | undefined
}

/**
 * Makes a commit object and returns its id. Moves no ref. The same input always gives the same id. This holds for
 * signed commits too, if the key gives the same signature each time, as Ed25519 and RSA keys do.
 *
 * @throws InvalidGitArgument, SigningFailed, or GitFailed when the tree or a parent does not exist
 */
export async function commitTree(dir: string, commit: NewCommit): Promise<string> {
  const content = contentOf(commit)
  await mustExist(dir, commit)
  return await storeCommit(dir, content, commit.signingKey)
}

function contentOf(commit: NewCommit): Buffer {
  if (commit.message.includes('\0')) throw new InvalidGitArgument('message', 'contains a NUL character')
  const tree = checkedId(commit.tree)
  const parents = [...new Set(commit.parents.map(checkedId))]
  const message = commit.message.endsWith('\n') ? commit.message : `${commit.message}\n`
  const author = identity(commit.author)
  const committer = identity(commit.committer)
  const headers = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${identityLine(author)}`,
    `committer ${identityLine(committer)}`,
  ]
  return Buffer.from(`${headers.join('\n')}\n\n${message}`)
}

/** Checks that the tree and the parents of the commit exist. @throws GitFailed */
async function mustExist(dir: string, { tree, parents }: NewCommit): Promise<void> {
  const [first, ...commits] = await objectReaders.headers(dir, [tree, ...parents])
  const absent = first?.type === 'tree' ? parents.find((_, i) => commits[i]?.type !== 'commit') : tree
  if (absent !== undefined) throw new GitFailed(['cat-file'], 0, `${absent} does not exist`)
}

async function storeCommit(dir: string, content: Buffer, signingKey?: string): Promise<string> {
  const written = signingKey === undefined ? content : await signedContent(content, signingKey)
  const sha = await storeObject(dir, 'commit', written)
  cacheCommit(dir, sha, written)
  return sha
}

/** An identity as git writes it; its `date` is in git's own form. */
function identity({ name, email, date }: Signature): Signature {
  const cleanEmail = cleanIdentity(email)
  return { name: cleanIdentity(name) || cleanEmail || 'unknown', email: cleanEmail, date: rawDate(date) }
}

/** The value of a commit's `author` or `committer` header. */
export function signatureLine(signature: Signature): string {
  return identityLine(identity(signature))
}

function identityLine({ name, email, date }: Signature): string {
  return `${name} <${email}> ${date}`
}

/** git removes these characters from both ends of a name, and refuses an empty name. */
const AT_THE_ENDS = /^[\s.,:;"'\\]+|[\s.,:;"'\\]+$/g

function cleanIdentity(text: string): string {
  return text
    .slice(0, 2 * MAX_IDENTITY_LENGTH)
    .replace(/[\p{Cc}<>]/gu, ' ')
    .replace(AT_THE_ENDS, '')
    .slice(0, MAX_IDENTITY_LENGTH)
    .replace(AT_THE_ENDS, '')
}

/** git's own form of a date: seconds since 1970 and the zone. */
function rawDate(iso: string): string {
  const time = Date.parse(iso)
  if (Number.isNaN(time) || time < 0)
    throw new InvalidGitArgument('date', `'${iso}' is not an ISO 8601 time after 1970`)
  const [, sign = '+', hours = '00', minutes = '00'] = /([+-])(\d\d):?(\d\d)$/.exec(iso.slice(10)) ?? []
  return `${Math.floor(time / 1000)} ${sign}${hours}${minutes}`
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
 * Makes a branch with a first commit. The outcome is `stale` when the branch exists already. The same input gives
 * the same `sha`, so a caller that repeats this after a crash can compare.
 */
export async function createFirstCommit(
  dir: string,
  { branch, files, message, author, committer }: FirstCommit,
): Promise<{ sha: string; outcome: RefOutcome }> {
  const ref = branchRef(branch)
  const entries: { name: Buffer; blob: string }[] = []
  for (const [name, content] of files) {
    const problem = fileNameProblem(name)
    if (problem !== undefined) throw new InvalidGitArgument('file name', problem)
    const blob = await storeObject(dir, 'blob', Buffer.from(content))
    entries.push({ name: Buffer.from(name), blob })
  }
  entries.sort((a, b) => a.name.compare(b.name))
  const tree = await storeObject(dir, 'tree', Buffer.concat(entries.flatMap(treeEntry)))
  const sha = await storeCommit(dir, contentOf({ tree, parents: [], message, author, committer }))
  return { sha, outcome: await updateRef(dir, ref, { from: null, to: sha }) }
}

/** The entry of a file in a tree; the file is not executable. */
function treeEntry({ name, blob }: { name: Buffer; blob: string }): Buffer[] {
  return [Buffer.from('100644 '), name, Buffer.from([0]), Buffer.from(blob, 'hex')]
}

function fileNameProblem(name: string): string | undefined {
  if (name === '' || name === '.' || name === '..') return 'is empty, . or ..'
  if (name.toLowerCase() === '.git') return 'is .git'
  if (/[/\0]/.test(name)) return "contains '/' or a NUL character"
  return undefined
}
