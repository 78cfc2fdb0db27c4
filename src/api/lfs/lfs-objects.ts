/**
 * Looks up the git LFS objects that a repository serves: its own, and those of its pull requests from forks. A reader of a
 * pull request may read its commits, and so the objects that they point to.
 */

import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { clientOf } from '../../auth/requester.ts'
import { hasLfsFile, isOid, lfsPath } from '../../git/lfs/lfs-files.ts'
import { lfsPointersBetween } from '../../git/lfs/lfs-pointers.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { type LfsObjectDocument, lfsObjectId } from '../../projections/models/lfs/lfs-objects.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { unlessMissing } from '../../storage/disk.ts'

/** Maximum numbers of places, repositories and pull requests that a search for a missing object reads. */
const MAX_PLACES = 2000
const MAX_REPOSITORIES = 50
const MAX_PULLS = 20

/** An object; `repoId` is the repository whose directory has its file. */
export type FoundObject = Pick<LfsObjectDocument, 'oid' | 'size' | 'repoId'>

/**
 * Returns objects by their ids. The requester may read the repository.
 *
 * @throws GitTooSlow, SlotsFull and other errors of git, when it searches pull requests
 */
export async function lfsObjectsFor(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  repoId: number,
  oids: readonly string[],
): Promise<ReadonlyMap<string, FoundObject>> {
  const { lfsObjects } = services.views
  const wanted = oids.filter(isOid)
  const own = await lfsObjects.getMany(wanted.map((oid) => lfsObjectId(repoId, oid)))
  const found = new Map<string, FoundObject>(own.map((object) => [object.oid, object]))
  const missing = wanted.filter((oid) => !found.has(oid))
  if (missing.length === 0) return found
  const elsewhere = await lfsObjects.find({ oid: { $in: missing } }, { limit: MAX_PLACES })
  if (elsewhere.length === 0) return found
  const signal = disconnectSignal(reply)
  const { diffs } = services.gitLimits
  for (const { from, to, objects } of await pullsWith(services, repoId, elsewhere)) {
    const left = objects.filter(({ oid }) => !found.has(oid))
    if (left.length === 0) continue
    const pointers = await lfsPointersBetween(
      gitDirOf(services, repoId),
      { from, to },
      (unwanted, answer) => diffs.ask(clientOf(request), unwanted, answer),
      signal,
    )
    for (const object of left) if (pointers.has(object.oid)) found.set(object.oid, object)
  }
  return found
}

/** Returns the commits of the latest pull requests from repositories that have some of the objects. */
async function pullsWith(
  { views }: Pick<Services, 'views'>,
  repoId: number,
  objects: readonly LfsObjectDocument[],
): Promise<{ from: string; to: string; objects: LfsObjectDocument[] }[]> {
  const byRepository = Map.groupBy(objects, (object) => object.repoId)
  const repositories = await views.repositories.getMany([...byRepository.keys()].map(String))
  const forksFirst = repositories.sort(
    (a, b) => Number(b.parentId === repoId) - Number(a.parentId === repoId),
  )
  const found = []
  for (const { id } of forksFirst.slice(0, MAX_REPOSITORIES)) {
    // The range holds all branches: `headKey` is `<repoId>:<branch>`.
    const filter = { repoId, headKey: { $gt: `${id}:`, $lt: `${id};` } }
    const pulls = await views.pulls.find(filter, { sort: [['index', -1]], limit: MAX_PULLS })
    for (const { mergeBase, head } of pulls) {
      found.push({ from: mergeBase, to: head.sha, objects: byRepository.get(id) ?? [] })
    }
    if (found.length >= MAX_PULLS) break
  }
  return found.slice(0, MAX_PULLS)
}

/** Opens the file of an object; undefined when it is lost. The caller closes it. */
export async function openLfsFile(
  services: Pick<Services, 'gitDir'>,
  object: FoundObject,
): Promise<FileHandle | undefined> {
  const dir = gitDirOf(services, object.repoId)
  if (!(await hasLfsFile(dir, object))) return undefined
  return await unlessMissing(open(join(dir, lfsPath(object.oid))))
}
