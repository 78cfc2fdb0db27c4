/** Looks up files and directories of a repository at a commit, with the facts that answers need. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { clientOf } from '../../auth/requester.ts'
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { SlotsFull } from '../../concurrency/semaphore.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { beginningOf, type CommitFacts, fromCommits } from '../../git/commits/commits.ts'
import { lastCommitOfPath, lastCommits } from '../../git/commits/last-commits.ts'
import { type NamedCommit, namedCommit } from '../../git/commits/named-commit.ts'
import { isPointerSize, pointerIn } from '../../git/lfs/lfs-pointer.ts'
import { isSmall, smallBlobs } from '../../git/objects/blobs.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { GitFailed, GitTooSlow } from '../../git/process/errors.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import type { IndexedTree } from '../../git/trees/indexed-tree.ts'
import { submoduleUrls } from '../../git/trees/submodules.ts'
import { kindOf, nameOf, type TreeEntry } from '../../git/trees/tree-entries.ts'
import { partsOf } from '../../git/trees/tree-path.ts'
import { entryAt, readTree, treeOf } from '../../git/trees/trees.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import {
  type Contents,
  type ContentsPlace,
  contentsWire,
  type EntryFacts,
  type LastCommit,
} from './contents.ts'
import { type Caller, ifServed } from './reached-objects.ts'
import { missingCommit, refsOf } from './refs-in-time.ts'

/** Maximum size of a file whose content is in a JSON answer, in bytes. `download_url` serves larger ones. */
export const MAX_CONTENT_BYTES = 1024 * 1024
/** Maximum length of a link's target, in bytes. Longer ones are truncated. */
const MAX_TARGET_BYTES = 1024

/** A request that reads, with its share of git. */
export interface Reading {
  services: Services
  /** Runs a git process in a slot of the client. */
  ask<T>(answer: (slot: GitSlot) => Promise<T>): Promise<T>
}

/** Returns the reading of a request; git ends when its client disconnects. */
export function readingOf(services: Services, request: FastifyRequest, reply: FastifyReply): Reading {
  const signal = disconnectSignal(reply)
  return {
    services,
    ask: (answer) => services.gitLimits.diffs.ask(clientOf(request), signal, answer),
  }
}

/** The parts of an answer that the client wants. */
export interface Wanted {
  content: boolean
  lastCommit: boolean
  message?: boolean
  lfs?: boolean
}

const notFound = (what: string) => new Refused(refuse.notFound(what))

/** Asks about a commit. git fails only when objects are missing. @throws Refused: not found, or gone at a past moment */
async function unlessMissing<T>({ sha }: NamedCommit, answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof GitFailed) throw missingCommit(sha, 'its objects no longer exist')
    throw error
  }
}

/**
 * The commit that `ref` names; without one, that of the default branch.
 * @throws Refused: not found, also for the id of a commit that no ref reaches; gone at a past moment
 */
export async function commitFor(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  ref: string | undefined,
): Promise<NamedCommit> {
  const name = ref?.trim() || repository.defaultBranch
  const named = await namedCommit(refsOf(services, repository.id), name)
  const commit = named && (await ifServed(services, caller, repository, named))
  if (commit === undefined) throw notFound(`there is no branch, tag or commit ${name.slice(0, 200)}`)
  return commit
}

/** Returns the entry at a path, and the parts of the path. @throws Refused (not found) */
export async function entryFor(
  services: Services,
  { repository, commit }: Pick<ContentsPlace, 'repository' | 'commit'>,
  path: string,
): Promise<{ entry: TreeEntry; parts: string[] }> {
  const dir = gitDirOf(services, repository.id)
  const parts = partsOf(path)
  const entry =
    parts &&
    (await unlessMissing(
      commit,
      treeOf(dir, commit.sha).then((tree) => entryAt(dir, tree, parts)),
    ))
  if (parts === undefined || entry === undefined) throw notFound('there is no such file or directory')
  return { entry, parts }
}

/** Returns the entries of a directory. @throws Refused (not found) */
export function entriesOf(
  services: Services,
  { repository, commit }: Pick<ContentsPlace, 'repository' | 'commit'>,
  directory: TreeEntry,
): Promise<IndexedTree> {
  return unlessMissing(commit, readTree(gitDirOf(services, repository.id), directory.id))
}

/** Returns the wire forms of entries of one directory, yielding to the event loop. `parts`: the directory's path. */
export async function contentsIn(
  reading: Reading,
  place: ContentsPlace,
  parts: readonly string[],
  entries: readonly TreeEntry[],
  wanted: Wanted,
): Promise<Contents[]> {
  const facts = await unlessMissing(place.commit, factsOf(reading, place, parts, entries, wanted))
  const rows: Contents[] = []
  await forEachInSlices(entries.entries(), ([i, entry]) => {
    rows.push(contentsWire(place, [...parts, nameOf(entry)].join('/'), entry, facts[i] ?? { size: 0 }))
  })
  return rows
}

async function factsOf(
  reading: Reading,
  place: ContentsPlace,
  parts: readonly string[],
  entries: readonly TreeEntry[],
  wanted: Wanted,
): Promise<EntryFacts[]> {
  const { services } = reading
  const dir = gitDirOf(services, place.repository.id)
  const blobs = entries.filter((entry) => ['file', 'symlink'].includes(kindOf(entry)))
  const headers = await objectReaders.headers(
    dir,
    blobs.map(({ id }) => id),
  )
  const byId = new Map(headers.flatMap((header) => (header === undefined ? [] : [[header.sha, header]])))
  const isRead = (entry: TreeEntry) =>
    wanted.content || kindOf(entry) === 'symlink' || (wanted.lfs && isPointerSize(byId.get(entry.id)?.size))
  const small = blobs
    .filter(isRead)
    .flatMap(({ id }) => byId.get(id) ?? [])
    .filter(isSmall)
  const [contents, last, urls] = await Promise.all([
    smallBlobs(dir, small),
    wanted.lastCommit ? lastCommitsOf(reading, dir, place, parts, entries) : undefined,
    entries.some((entry) => kindOf(entry) === 'submodule')
      ? submoduleUrls(dir, await treeOf(dir, place.commit.sha))
      : undefined,
  ])
  return entries.map((entry) => {
    const kind = kindOf(entry)
    const found = contents.get(entry.id)
    return {
      size: byId.get(entry.id)?.size ?? 0,
      content: kind === 'file' && wanted.content ? found : undefined,
      target: kind === 'symlink' ? (found?.subarray(0, MAX_TARGET_BYTES).toString('utf8') ?? '') : undefined,
      submoduleUrl: kind === 'submodule' ? urls?.get([...parts, nameOf(entry)].join('/')) : undefined,
      lastCommit: last?.get(entry.name),
      withMessage: wanted.message ?? false,
      lfs: wanted.lfs && kind === 'file' ? pointerIn(found) : undefined,
    }
  })
}

/** Maximum length of a commit message in a list, in characters. */
const MAX_LISTED_MESSAGE = 8192

/** Returns the last commits of entries, by name in the tree. For a single entry, git searches the whole history. */
async function lastCommitsOf(
  { ask }: Reading,
  dir: string,
  { commit }: ContentsPlace,
  parts: readonly string[],
  entries: readonly TreeEntry[],
): Promise<ReadonlyMap<string, LastCommit>> {
  const names = entries.map(({ name }) => name)
  const found = new Map(await lastCommits(dir, commit.sha, parts, new Set(names)))
  const [only] = entries
  if (only !== undefined && entries.length === 1 && !found.has(only.name)) {
    const path = [...parts, nameOf(only)].join('/')
    const sha = await ask((slot) => lastCommitOfPath(dir, commit.sha, path, slot)).catch(unlessBusy)
    if (sha !== undefined) found.set(only.name, sha)
  }
  const commits = await fromCommits(dir, found.values(), (facts) => lastCommitOf(facts, entries.length === 1))
  return new Map(
    [...found].flatMap(([name, sha]) => {
      const one = commits.get(sha)
      return one === undefined ? [] : [[name, one] as const]
    }),
  )
}

function lastCommitOf({ sha, author, committer, message }: CommitFacts, isAlone: boolean): LastCommit {
  const shown = isAlone ? message : beginningOf(message, MAX_LISTED_MESSAGE)
  return { sha, authored: author.date, committed: committer.date, message: shown }
}

/** Ignores that git is busy: a file without its last commit is better than a refusal. */
function unlessBusy(error: unknown): undefined {
  if (!(error instanceof GitTooSlow || error instanceof SlotsFull)) throw error
}

/** Returns the file, link, directory or submodule at a path. @throws Refused (not found) */
async function contentsAt(
  reading: Reading,
  place: ContentsPlace,
  path: string,
  wanted: Wanted,
): Promise<Contents> {
  const { entry, parts } = await entryFor(reading.services, place, path)
  const [contents] = await contentsIn(reading, place, parts.slice(0, -1), [entry], wanted)
  if (contents === undefined) throw notFound('there is no such file or directory')
  return contents
}

/** Returns the same; null when the path does not exist. */
export async function contentsIfThere(...args: Parameters<typeof contentsAt>): Promise<Contents | null> {
  try {
    return await contentsAt(...args)
  } catch (error) {
    if (error instanceof Refused && error.refusal.refused === 'notFound') return null
    throw error
  }
}
