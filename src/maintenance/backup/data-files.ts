/** Copies the files that the log names: attached files, and repositories with their objects and refs. */
import { mkdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { keptRefs } from '../../git/refs/kept-refs.ts'
import { isUuid } from '../../storage/attachments/files.ts'
import { exists, namesIn } from '../../storage/disk.ts'
import type { BackupContext } from './context.ts'
import { sumOf } from './file-copier.ts'
import type { LogReferences, NamedRepository } from './log-references.ts'
import { copyObjects, isConnected, REPOSITORY_FILES, settleLfsFiles, writeRefs } from './repository-copy.ts'

const REPOSITORY = /^(\d+)\.git$/
/** A directory of attached files: the first two characters of their uuids. */
const PREFIX = /^[0-9a-f]{2}$/
/** Maximum number of concurrent repository checks. Each takes one processor. */
const CONCURRENT_CHECKS = 2

/** Copies the attached files that the copy does not have yet. */
export async function copyAttachments(
  { dataDir, data, draft, copy, onProgress }: BackupContext,
  step: string,
): Promise<void> {
  const from = join(dataDir, 'attachments')
  const to = join(data, 'attachments')
  const prefixes = (await namesIn(from)).filter((name) => PREFIX.test(name))
  for (const [i, prefix] of prefixes.entries()) {
    onProgress({ step, done: i, total: prefixes.length })
    const known = new Set(await namesIn(join(to, prefix)))
    const names = await namesIn(join(from, prefix))
    await forEachConcurrently(
      names.filter((name) => isUuid(name) && !known.has(name)),
      async (name) => {
        const copied = await copy(join(from, prefix, name), join(to, prefix, name))
        if (copied !== undefined) draft.add(`attachments/${prefix}/${name}`, copied)
      },
    )
    await draft.write()
  }
}

/**
 * Copies new git objects of the repositories in `ids`, or of all in the data directory. Resolves to the ids of deleted
 * repositories.
 */
export async function copyRepositories(
  { dataDir, data, draft, copy, onProgress }: BackupContext,
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
      (path, file) => draft.add(`git/${id}.git/${path}`, file),
    )
    if (!isThere) gone.add(id)
    await draft.write()
  }
  return gone
}

/** The paths of attached files that the log names and the copy does not have. */
export async function missingAttachments(
  { data }: BackupContext,
  { repositories }: LogReferences,
): Promise<string[]> {
  const missing: string[] = []
  for (const { attachments } of repositories.values()) {
    await forEachConcurrently(attachments, async (uuid) => {
      const path = `attachments/${uuid.slice(0, 2)}/${uuid}`
      if (!(await exists(join(data, path)))) missing.push(path)
    })
  }
  return missing
}

/**
 * Copies new objects, writes the refs of the log and the hidden ones, and checks that all reachable objects are copied. Resolves to the
 * names of missing ones.
 */
export async function finishRepositories(
  context: BackupContext,
  repositories: ReadonlyMap<number, NamedRepository>,
): Promise<string[]> {
  const { dataDir, data, checked, onProgress } = context
  // Read before the objects are copied, which then have all that these refs reach.
  const kept = new Map<number, ReadonlyMap<string, string>>()
  for (const id of repositories.keys()) kept.set(id, await keptRefs(join(dataDir, 'git', `${id}.git`)))
  const gone = await copyRepositories(context, 'repositories', [...repositories.keys()])
  const missing: string[] = []
  let done = 0
  await forEachConcurrently(
    repositories,
    async ([id, recorded]) => {
      const named = { ...recorded, refs: new Map([...recorded.refs, ...(kept.get(id) ?? [])]) }
      onProgress({ step: 'checking repositories', done, total: repositories.size })
      done += 1
      const name = `git/${id}.git`
      const copy = join(data, name)
      const isThere = await writeRefs(join(dataDir, name), copy, named)
      // The copy of a deleted repository may be incomplete.
      if (!isThere || gone.has(id)) {
        missing.push(name)
        return
      }
      const lost = await settleLfsFiles(copy, named)
      missing.push(...lost.map((path) => `${name}/${path}`))
      const refs = JSON.stringify([...named.refs])
      if (checked.get(id) === refs) return
      if (await isConnected(copy, named)) checked.set(id, refs)
      else missing.push(`objects of ${name}`)
    },
    CONCURRENT_CHECKS,
  )
  return missing
}

/** Whether the log names a file. `path` is relative to `data/`. Files of stores always count as named. */
export function isNamedBy({ repositories }: LogReferences): (path: string) => boolean {
  const attachments = new Set<string>()
  for (const repository of repositories.values()) {
    for (const uuid of repository.attachments) attachments.add(uuid)
  }
  return (path) => {
    const [kind, name = '', file = ''] = path.split('/')
    if (kind === 'git') {
      const repository = repositories.get(Number(REPOSITORY.exec(name)?.[1]))
      return file === 'lfs' ? repository?.lfs.has(basename(path)) === true : repository !== undefined
    }
    return kind !== 'attachments' || name === 'log' || attachments.has(file)
  }
}

/**
 * Deletes files from the copy that the copied log does not name: they were deleted or added during the
 * backup.
 */
export async function removeUnnamed(
  { data }: BackupContext,
  isNamed: (path: string) => boolean,
): Promise<void> {
  for (const name of await namesIn(join(data, 'git'))) {
    if (!isNamed(`git/${name}`)) await rm(join(data, 'git', name), { recursive: true, force: true })
  }
  for (const prefix of await namesIn(join(data, 'attachments'))) {
    const directory = join(data, 'attachments', prefix)
    const names = await namesIn(directory)
    const others = names.filter((name) => !isNamed(`attachments/${prefix}/${name}`))
    for (const name of others) await rm(join(directory, name))
    if (others.length === names.length) await rmdir(directory)
  }
}

/** Adds to the draft the files that may be written several times: stores, refs and configuration. */
export async function addRemainingFiles(
  { dataDir, data, draft }: BackupContext,
  isNamed: (path: string) => boolean,
  storeFiles: readonly string[],
): Promise<void> {
  const paths = [...storeFiles]
  // This file names the log that the attachments belong to. It may be empty for a moment; the next start
  // writes it.
  const owner = await readFile(join(dataDir, 'attachments', 'log')).catch(() => Buffer.alloc(0))
  if (owner.length > 0) {
    await mkdir(join(data, 'attachments'), { recursive: true })
    await writeFile(join(data, 'attachments', 'log'), owner)
    paths.push('attachments/log')
  }
  for (const name of await namesIn(join(data, 'git'))) {
    if (isNamed(`git/${name}`)) paths.push(...REPOSITORY_FILES.map((file) => `git/${name}/${file}`))
  }
  await forEachConcurrently(paths, async (path) => {
    if (await exists(join(data, path))) draft.add(path, await sumOf(join(data, path)))
    await draft.write()
  })
}
