/**
 * A backup of a data directory, beside a running server or without one, that is as one moment left it: that of
 * the copy of the log, P. What the log names lies outside of it, in files that only come and go:
 *
 * 1. the read models, so that they are not ahead of P (a start catches up);
 * 2. files and git objects: a first pass, so that what is deleted meanwhile is there;
 * 3. the log;
 * 4. the secrets, which are written before their events: all that the log names are there;
 * 5. files and git objects that came since. Whatever the log names was written before its event, so that
 *    something can be missing only when it was deleted after P. Then the log, which tells so, is copied once
 *    more, and the rest follows;
 * 6. refs, as the log at P has them, whatever git says now. A merge whose intent is in the log but whose outcome
 *    is not is finished by the recovery of the next start, as after a crash at P.
 *
 * Not copied are `pushes`, which tell where git may be ahead of the log (the copy's refs are the log's), files
 * that are being uploaded, and the lock.
 */
import { mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isUuid } from '../attachments/files.ts'
import { exists, flush, hasCode, namesIn } from '../disk.ts'
import { GitUnavailable } from '../git/errors.ts'
import { copyLog, copyReadModels, copySecrets } from './database-copies.ts'
import { createFileCopier, fewAtOnce, flushTree, sumOf } from './file-copier.ts'
import { refuseHalfRestored } from './half-restored.ts'
import { BackupProblem, DATA, type Manifest, SUMS, writeManifest } from './manifest.ts'
import type { NamedByLog, NamedRepository } from './named-by-log.ts'
import { copyObjects, isConnected, REPOSITORY_FILES, writeRefs } from './repository-copy.ts'
import { openDraft } from './sums.ts'
import { isLock, takePartial, usableTarget } from './target.ts'
import type { Progress, Work } from './work.ts'

export interface BackupOptions {
  dataDir: string
  /** Where the backup comes to be: not there yet, or empty. */
  directory: string
  onProgress?: (progress: Progress) => void
}

export type BackupResult = Omit<Manifest, 'format' | 'sums'> & { directory: string }

const REPOSITORY = /^(\d+)\.git$/
const SHELF = /^[0-9a-f]{2}$/
/** So often the log is copied when things that it names are deleted meanwhile. */
const ROUNDS = 10
/** Walking repositories takes a processor each. */
const CONCURRENT_CHECKS = 2

/**
 * Makes a backup of `dataDir` in `directory`, which gets its name when all of it is on disk. It never blocks a
 * server's writes.
 *
 * What the log names and the data directory does not have (somebody deleted it by hand) is no reason to have no
 * backup at all: it is `missing` in the result.
 *
 * @throws BackupProblem, DataDirInUse (half restored), BrokenFile, UnreadableEvent, and what the file system throws
 */
export async function backup({
  dataDir,
  directory,
  onProgress = () => {},
}: BackupOptions): Promise<BackupResult> {
  await refuseHalfRestored(dataDir)
  if (!(await exists(join(dataDir, 'events.db')))) {
    throw new BackupProblem(`DATA_DIR: there is no log in ${dataDir}`)
  }
  const target = await usableTarget(directory, dataDir)
  const partial = `${target}.partial`
  const release = await takePartial(partial, target)
  try {
    const manifest = await fill(dataDir, partial, onProgress)
    // Not over what somebody else has put there meanwhile: it would have to be empty.
    await rename(partial, target)
    await flush(dirname(target))
    // Only now: without it another backup could have begun in the midst of this one.
    release()
    for (const name of await readdir(target)) if (isLock(name)) await rm(join(target, name), { force: true })
    return { ...manifest, directory: target }
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => undefined)
    if (error instanceof GitUnavailable) throw new BackupProblem(error.message, { cause: error })
    throw hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST')
      ? new BackupProblem(`${target} is not empty any more`, { cause: error })
      : error
  } finally {
    release()
  }
}

async function fill(
  dataDir: string,
  partial: string,
  onProgress: Work['onProgress'],
): Promise<Omit<BackupResult, 'directory'>> {
  const data = join(partial, DATA)
  await mkdir(data)
  const draft = await openDraft(partial)
  try {
    const work: Work = { dataDir, data, draft, copy: createFileCopier(), onProgress, checked: new Map() }
    await copyReadModels(work)
    await copyAttachments(work, 'files of comments, first pass')
    await copyRepositories(work, 'repositories, first pass')
    const { named, missing, createdAt } = await copyLogAndWhatItNames(work)
    const isKept = keptBy(named)
    await removeOthers(work, isKept)
    await noteRest(work, isKept)
    const { files, bytes } = await draft.finish(isKept)
    onProgress({ step: 'flushing', done: 0, total: 0 })
    await flushTree(partial)
    const repositories = [...named.repositories.values()]
    const count = (of: (repository: NamedRepository) => { size: number }) =>
      repositories.reduce((sum, repository) => sum + of(repository).size, 0)
    const manifest = {
      createdAt,
      position: named.position,
      events: named.events,
      repositories: repositories.length,
      refs: count(({ refs }) => refs),
      attachments: count(({ attachments }) => attachments),
      files,
      bytes,
      missing,
    }
    await writeManifest(partial, { ...manifest, sums: (await sumOf(join(partial, SUMS))).sha256 })
    await flush(partial)
    return manifest
  } finally {
    await draft.close()
  }
}

/** Copies the files that the copy does not have yet. */
async function copyAttachments(
  { dataDir, data, draft, copy, onProgress }: Work,
  step: string,
): Promise<void> {
  const from = join(dataDir, 'attachments')
  const to = join(data, 'attachments')
  const shelves = (await namesIn(from)).filter((name) => SHELF.test(name))
  for (const [i, shelf] of shelves.entries()) {
    onProgress({ step, done: i, total: shelves.length })
    const known = new Set(await namesIn(join(to, shelf)))
    const names = await namesIn(join(from, shelf))
    await fewAtOnce(
      names.filter((name) => isUuid(name) && !known.has(name)),
      async (name) => {
        const copied = await copy(join(from, shelf, name), join(to, shelf, name))
        if (copied !== undefined) draft.note(`attachments/${shelf}/${name}`, copied)
      },
    )
    await draft.write()
  }
}

/** Copies the objects that the copies do not have yet. Resolves to the ids of repositories that are gone. */
async function copyRepositories(
  { dataDir, data, draft, copy, onProgress }: Work,
  step: string,
  ids?: readonly number[],
): Promise<Set<number>> {
  const git = join(dataDir, 'git')
  const all = ids ?? (await namesIn(git)).flatMap((name) => REPOSITORY.exec(name)?.[1] ?? []).map(Number)
  const gone = new Set<number>()
  for (const [i, id] of all.entries()) {
    onProgress({ step, done: i, total: all.length })
    const isThere = await copyObjects(
      join(git, `${id}.git`),
      join(data, 'git', `${id}.git`),
      copy,
      (path, file) => draft.note(`git/${id}.git/${path}`, file),
    )
    if (!isThere) gone.add(id)
    await draft.write()
  }
  return gone
}

/** Until nothing is missing but what is missing from the data directory itself. */
async function copyLogAndWhatItNames(
  work: Work,
): Promise<{ named: NamedByLog; missing: string[]; createdAt: string }> {
  let missingBefore = new Set<string>()
  for (let round = 0; round < ROUNDS; round++) {
    const createdAt = new Date().toISOString()
    const named = await copyLog(work)
    await copySecrets(work, named)
    await copyAttachments(work, 'files of comments')
    const missing = [
      ...(await missingAttachments(work, named)),
      ...(await finishRepositories(work, named.repositories)),
    ]
    if (missing.every((one) => missingBefore.has(one))) return { named, missing, createdAt }
    missingBefore = new Set(missing)
  }
  throw new BackupProblem('so much is being deleted that no moment could be copied whole; try again')
}

async function missingAttachments({ data }: Work, { repositories }: NamedByLog): Promise<string[]> {
  const missing: string[] = []
  for (const { attachments } of repositories.values()) {
    await fewAtOnce(attachments, async (uuid) => {
      const path = `attachments/${uuid.slice(0, 2)}/${uuid}`
      if (!(await exists(join(data, path)))) missing.push(path)
    })
  }
  return missing
}

/** Objects that came since, refs, and whether these lead to all that they should. Resolves to what is missing. */
async function finishRepositories(
  work: Work,
  repositories: ReadonlyMap<number, NamedRepository>,
): Promise<string[]> {
  const { dataDir, data, checked, onProgress } = work
  const gone = await copyRepositories(work, 'repositories', [...repositories.keys()])
  const missing: string[] = []
  let done = 0
  await fewAtOnce(
    repositories,
    async ([id, named]) => {
      onProgress({ step: 'checking repositories', done, total: repositories.size })
      done += 1
      const name = `git/${id}.git`
      const copy = join(data, name)
      const isThere = await writeRefs(join(dataDir, name), copy, named)
      // One that is gone by now may have been copied whole before; but nothing says so.
      if (!isThere || gone.has(id)) {
        missing.push(name)
        return
      }
      const refs = JSON.stringify([...named.refs])
      if (checked.get(id) === refs) return
      if (await isConnected(copy, named)) checked.set(id, refs)
      else missing.push(`objects of ${name}`)
    },
    CONCURRENT_CHECKS,
  )
  return missing
}

/** Whether a file below `data/` belongs to what the log names. */
function keptBy({ repositories }: NamedByLog): (path: string) => boolean {
  const attachments = new Set<string>()
  for (const repository of repositories.values()) {
    for (const uuid of repository.attachments) attachments.add(uuid)
  }
  return (path) => {
    const [kind, name = '', file = ''] = path.split('/')
    if (kind === 'git') return repositories.has(Number(REPOSITORY.exec(name)?.[1]))
    return kind !== 'attachments' || name === 'log' || attachments.has(file)
  }
}

/** What was deleted, or came, while the backup was made is not in it. */
async function removeOthers({ data }: Work, isKept: (path: string) => boolean): Promise<void> {
  for (const name of await namesIn(join(data, 'git'))) {
    if (!isKept(`git/${name}`)) await rm(join(data, 'git', name), { recursive: true, force: true })
  }
  for (const shelf of await namesIn(join(data, 'attachments'))) {
    const directory = join(data, 'attachments', shelf)
    const names = await namesIn(directory)
    const others = names.filter((name) => !isKept(`attachments/${shelf}/${name}`))
    for (const name of others) await rm(join(directory, name))
    if (others.length === names.length) await rmdir(directory)
  }
}

/** Files that were written more than once, and are now as they stay. */
async function noteRest({ dataDir, data, draft }: Work, isKept: (path: string) => boolean): Promise<void> {
  const paths = ['events.db', 'secrets.db', 'views.db']
  // Which log the files belong to; empty while it is written, and then the next start writes it.
  const owner = await readFile(join(dataDir, 'attachments', 'log')).catch(() => Buffer.alloc(0))
  if (owner.length > 0) {
    await mkdir(join(data, 'attachments'), { recursive: true })
    await writeFile(join(data, 'attachments', 'log'), owner)
    paths.push('attachments/log')
  }
  for (const name of await namesIn(join(data, 'git'))) {
    if (isKept(`git/${name}`)) paths.push(...REPOSITORY_FILES.map((file) => `git/${name}/${file}`))
  }
  await fewAtOnce(paths, async (path) => {
    if (await exists(join(data, path))) draft.note(path, await sumOf(join(data, path)))
    await draft.write()
  })
}
