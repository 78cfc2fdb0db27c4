/** Creates commits without a work tree. */

import { storeObject } from '../objects/loose-objects.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { GitFailed, InvalidGitArgument } from '../process/errors.ts'
import { branchRef, checkedId } from '../refs/names.ts'
import { type RefOutcome, updateRef } from '../refs/refs.ts'
import { cacheCommit, type Signature } from './commits.ts'
import { signedContent } from './signatures.ts'

const MAX_IDENTITY_LENGTH = 500

export interface NewCommit {
  tree: string
  parents: readonly string[]
  /** A missing newline is added at the end. */
  message: string
  author: Signature
  committer: Signature
  /** Absolute path of the private SSH key, without a passphrase, that signs the commit. */
  signingKey?: string | undefined
}

/**
 * Creates a commit object and returns its id. Moves no ref. The same input always results in the same id; for signed
 * commits, if signatures of the key are deterministic, as with Ed25519 and RSA.
 * @throws InvalidGitArgument, SigningFailed, or GitFailed for a missing tree or parent
 */
export async function commitTree(dir: string, commit: NewCommit): Promise<string> {
  const content = contentOf(commit)
  const { tree, parents } = commit
  const [first, ...commits] = await objectReaders.headers(dir, [tree, ...parents])
  const absent = first?.type === 'tree' ? parents.find((_, i) => commits[i]?.type !== 'commit') : tree
  if (absent !== undefined) throw new GitFailed(['cat-file'], 0, `${absent} does not exist`)
  return await storeCommit(dir, content, commit.signingKey)
}

function contentOf(commit: NewCommit): Buffer {
  if (commit.message.includes('\0')) throw new InvalidGitArgument('message', 'contains a NUL character')
  const tree = checkedId(commit.tree)
  const parents = [...new Set(commit.parents.map(checkedId))]
  const message = commit.message.endsWith('\n') ? commit.message : `${commit.message}\n`
  const headers = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${signatureLine(commit.author)}`,
    `committer ${signatureLine(commit.committer)}`,
  ]
  return Buffer.from(`${headers.join('\n')}\n\n${message}`)
}

async function storeCommit(dir: string, content: Buffer, signingKey?: string): Promise<string> {
  const written = signingKey === undefined ? content : await signedContent(content, signingKey)
  const sha = await storeObject(dir, 'commit', written)
  cacheCommit(dir, sha, written)
  return sha
}

/** The value of a commit's `author` or `committer` header. */
export function signatureLine({ name, email, date }: Signature): string {
  const cleanEmail = cleanIdentity(email)
  return `${cleanIdentity(name) || cleanEmail || 'unknown'} <${cleanEmail}> ${rawDate(date)}`
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

export interface FirstCommit extends Omit<NewCommit, 'tree' | 'parents' | 'signingKey'> {
  branch: string
  /** Content by file name, at the top level of the tree. The names must be valid. */
  files: ReadonlyMap<string, string | Uint8Array>
}

/**
 * Creates a branch with a first commit. The outcome is `stale` when the branch exists already. The same input results in
 * the same `sha`, so a caller that retries after a crash can compare.
 */
export async function createFirstCommit(
  dir: string,
  { branch, files, ...commit }: FirstCommit,
): Promise<{ sha: string; outcome: RefOutcome }> {
  const ref = branchRef(branch)
  const entries: Buffer[] = []
  for (const [name, content] of files) {
    const blob = await storeObject(dir, 'blob', Buffer.from(content))
    entries.push(Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, 'hex')]))
  }
  // All begin with the same mode, so this is the order of their names.
  const tree = await storeObject(dir, 'tree', Buffer.concat(entries.sort(Buffer.compare)))
  const sha = await storeCommit(dir, contentOf({ ...commit, tree, parents: [] }))
  return { sha, outcome: await updateRef(dir, ref, { from: null, to: sha }) }
}
