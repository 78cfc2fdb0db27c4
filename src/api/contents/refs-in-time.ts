/**
 * The refs of a repository: those of git or, at a past moment, those of its documents. Commits never change, so all else is
 * read from git. git may have removed the commits of a past ref.
 */
import { Refused, refuse } from '../../errors/refusal.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { isPullHead } from '../../git/refs/names.ts'
import { gitRefs, type RefSource } from '../../git/refs/ref-source.ts'
import { listRefs, type Ref } from '../../git/refs/refs.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { otherRefId } from '../../projections/models/branches/other-refs.fold.ts'
import { mergedCommitId } from '../../projections/models/pull-requests/merged-commits.fold.ts'
import { pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import { commitChecksId } from '../../projections/models/statuses/commit-statuses.fold.ts'
import { tagId } from '../../projections/models/tags/tags.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { View } from '../../projections/views/view.ts'
import type { Views } from '../../projections/views/views.ts'
import { currentMoment } from '../../services/moment.ts'
import { gitDirOf, type Services } from '../../services/services.ts'

const HEADS = 'refs/heads/'
const TAGS = 'refs/tags/'

/** Number of documents that are read together. Pull requests are long. */
const REFS_PER_BATCH = 1000
const PULLS_PER_BATCH = 100

type GitServices = Pick<Services, 'gitDir'>

/** Returns the refs by which names are resolved. */
export function refsOf(services: GitServices, repoId: number): RefSource {
  const dir = gitDirOf(services, repoId)
  const views = currentMoment()?.views
  if (views === undefined) return gitRefs(dir)
  return {
    dir,
    async read(refs) {
      return new Map(
        await Promise.all(refs.map(async (ref) => [ref, await pastRef(views, repoId, ref)] as const)),
      )
    },
    async onUnresolved(id) {
      const [header] = await objectReaders.headers(dir, [id])
      if (header === undefined && (await isRecorded(views, repoId, id))) throw gone(id)
    },
  }
}

/** Returns all refs, also those of pull requests, in git's order. */
export async function allRefsOf(services: GitServices, repoId: number): Promise<Ref[]> {
  const views = currentMoment()?.views
  return views === undefined ? await listRefs(gitDirOf(services, repoId)) : await pastRefs(views, repoId)
}

/** Returns the refusal for a commit that git lacks: gone at a past moment, else not found with `message`. */
export const missingCommit = (sha: string, message: string): Refused =>
  currentMoment() === undefined ? new Refused(refuse.notFound(message)) : gone(sha)

/** At a past moment, checks that git still has these commits. @throws Refused (gone) for the first that is missing */
export async function requireCommits(
  services: GitServices,
  repoId: number,
  shas: readonly string[],
): Promise<void> {
  if (currentMoment() === undefined) return
  const headers = await objectReaders.headers(gitDirOf(services, repoId), shas)
  const missing = shas.find((_, i) => headers[i] === undefined)
  if (missing !== undefined) throw gone(missing)
}

const gone = (sha: string) => new Refused(refuse.gone(`git no longer has ${sha}`))

async function pastRef(views: Views, repoId: number, ref: string): Promise<string | null> {
  if (ref.startsWith(HEADS))
    return (await views.branches.get(branchId(repoId, ref.slice(HEADS.length))))?.commit.sha ?? null
  if (ref.startsWith(TAGS)) return (await views.tags.get(tagId(repoId, ref.slice(TAGS.length))))?.sha ?? null
  if (isPullHead(ref))
    return (await views.pulls.get(pullId(repoId, Number(ref.split('/')[2]))))?.headSha ?? null
  return (await views.otherRefs.get(otherRefId(repoId, ref)))?.sha ?? null
}

/** Whether a ref named the object at the moment, or an earlier event names it. */
async function isRecorded(views: Views, repoId: number, id: string): Promise<boolean> {
  if ((await views.mergedCommits.get(mergedCommitId(repoId, id))) !== undefined) return true
  if ((await views.commitChecks.get(commitChecksId(repoId, id))) !== undefined) return true
  return (await pastRefs(views, repoId)).some(({ sha }) => sha === id)
}

async function pastRefs(views: Views, repoId: number): Promise<Ref[]> {
  const byName = [['name', 1]] as const
  const kinds = new Map<string, Ref[]>()
  const add = (ref: string, sha: string) => {
    const kind = ref.slice(0, ref.indexOf('/', 'refs/'.length) + 1)
    const known = kinds.get(kind)
    if (known === undefined) kinds.set(kind, [{ ref, sha }])
    else known.push({ ref, sha })
  }
  for await (const { name, commit } of each(views.branches, { repoId }, byName, REFS_PER_BATCH))
    add(HEADS + name, commit.sha)
  for await (const { name, sha } of each(views.tags, { repoId }, byName, REFS_PER_BATCH))
    add(TAGS + name, sha)
  for await (const { ref, sha } of each(views.otherRefs, { repoId }, [['ref', 1]], REFS_PER_BATCH))
    add(ref, sha)
  const pulls: Ref[] = []
  for await (const { index, headSha } of each(views.pulls, { repoId }, [['index', 1]], PULLS_PER_BATCH))
    pulls.push({ ref: `refs/pull/${index}/head`, sha: headSha })
  for (const { ref, sha } of pulls.sort((a, b) => (a.ref < b.ref ? -1 : 1))) add(ref, sha)
  // The store sorts names of one kind as git does.
  return [...kinds].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, refs]) => refs)
}

async function* each<D extends object>(
  view: Pick<View<D>, 'find'>,
  filter: Filter<D>,
  sort: Sort<D>,
  limit: number,
): AsyncGenerator<D> {
  for (let skip = 0; ; skip += limit) {
    const found = await view.find(filter, { sort, skip, limit })
    yield* found
    if (found.length < limit) return
  }
}
