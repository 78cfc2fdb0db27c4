/** Finds the commit that a client names: by a branch, a tag or an id. */

import { objectReaders } from '../objects/object-readers.ts'
import { isObjectId, isPullHead, refNameProblem } from '../refs/names.ts'
import { type RefSource, readRef } from '../refs/ref-source.ts'
import { commitOfTagOrId } from './revision.ts'

export interface NamedCommit {
  kind: 'branch' | 'tag' | 'commit'
  /** The name of the branch or tag; the id of the commit. */
  name: string
  sha: string
}

const HEADS = 'refs/heads/'
const TAGS = 'refs/tags/'

/**
 * Returns the commit of a name: a branch, a tag, or an id, whole or abbreviated; in this order. `refs/heads/main`,
 * `refs/tags/v1` and `refs/pull/1/head` name exactly those; other full names count as unknown. Undefined for an unknown
 * name.
 */
export async function namedCommit(source: RefSource, name: string): Promise<NamedCommit | undefined> {
  const named = await refNamed(source, name)
  if (named !== undefined) return named
  if (isPullHead(name)) {
    const head = await peeled(source, await readRef(source, name))
    return head === undefined ? undefined : { kind: 'commit', name: head, sha: head }
  }
  if (name.startsWith('refs/')) return undefined
  const sha = await commitOfTagOrId(source, name)
  return sha === undefined ? undefined : { kind: 'commit', name: sha, sha }
}

/** The branch or tag with this name. */
async function refNamed(source: RefSource, name: string): Promise<NamedCommit | undefined> {
  const full = name.startsWith(HEADS) || name.startsWith(TAGS) ? [name] : [HEADS + name, TAGS + name]
  const refs = full.filter((ref) => refNameProblem(ref) === undefined)
  const found = refs.length === 0 ? new Map<string, string | null>() : await source.read(refs)
  for (const ref of refs) {
    const commit = await peeled(source, found.get(ref))
    if (commit === undefined) continue
    return ref.startsWith(HEADS)
      ? { kind: 'branch', name: ref.slice(HEADS.length), sha: commit }
      : { kind: 'tag', name: ref.slice(TAGS.length), sha: commit }
  }
  return undefined
}

async function peeled(source: RefSource, id: string | null | undefined): Promise<string | undefined> {
  if (id === null || id === undefined) return undefined
  const [commit] = await objectReaders.headers(source.dir, [id], { peel: true })
  if (commit === undefined) await source.onUnresolved?.(id)
  return commit?.sha
}

/** Maximum number of path segments tried as a ref's name. */
const MAX_REF_PARTS = 20

/**
 * Splits `main/src/a.md` into a commit and the path in it. Names of refs may have slashes, but no ref begins with the
 * whole name of another one. With `kind`, accepts only names of that kind. Undefined for an unknown name.
 */
export async function commitAndPath(
  source: RefSource,
  text: string,
  kind?: NamedCommit['kind'],
): Promise<{ commit: NamedCommit; path: string } | undefined> {
  const parts = text.split('/')
  for (let end = 1; end <= Math.min(parts.length, MAX_REF_PARTS); end++) {
    const name = parts.slice(0, end).join('/')
    const commit =
      kind === 'commit' || (end === 1 && isObjectId(name) && kind === undefined)
        ? await commitWithId(source, name)
        : await refNamed(source, kind === undefined ? name : `${kind === 'tag' ? TAGS : HEADS}${name}`)
    if (commit !== undefined) return { commit, path: parts.slice(end).join('/') }
    if (kind === 'commit') return undefined
  }
  return undefined
}

async function commitWithId(source: RefSource, id: string): Promise<NamedCommit | undefined> {
  const sha = await commitOfTagOrId(source, id)
  return sha === undefined ? undefined : { kind: 'commit', name: sha, sha }
}
