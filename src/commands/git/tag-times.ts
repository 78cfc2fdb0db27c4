/** Reads the times of new tags, for their events. */
import type { TagTime } from '../../events/catalog/tags.ts'
import { fromCommits } from '../../git/commits/commits.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { fromTags } from '../../git/refs/tags.ts'

/**
 * Returns the times of new tags by object id: the tagger's, or the committer's for a lightweight tag. A tag that leads
 * to no commit has no time.
 */
export async function tagTimes(
  dir: string,
  moved: readonly { ref: string; to: string | null }[],
): Promise<ReadonlyMap<string, TagTime>> {
  const shas = [
    ...new Set(moved.flatMap(({ ref, to }) => (to !== null && ref.startsWith('refs/tags/') ? [to] : []))),
  ]
  if (shas.length === 0) return new Map()
  const commits = await objectReaders.headers(dir, shas, { peel: true })
  const tags = await fromTags(dir, shas, ({ tagger }) => tagger?.date)
  const ids = commits.flatMap((commit) => (commit === undefined ? [] : [commit.sha]))
  const times = await fromCommits(dir, ids, ({ committer }) => committer.date)
  return new Map(
    shas.flatMap((sha, i) => {
      const at = tags.get(sha) ?? times.get(commits[i]?.sha ?? '')
      return at === undefined ? [] : [[sha, { sha, at }]]
    }),
  )
}
