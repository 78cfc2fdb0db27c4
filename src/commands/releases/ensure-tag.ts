/** Makes the tag of a release that is published, unless it is there. */
import type { ReleaseSettings } from '../../events/release-events.ts'
import { commitFacts } from '../../git/commits.ts'
import { refNameProblem } from '../../git/names.ts'
import { objectReaders } from '../../git/object-readers.ts'
import { resolveRef } from '../../git/refs.ts'
import { commitOfTagOrId } from '../../git/revision.ts'
import { Refused, refuse } from '../../refusal.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { comparableTime } from '../../times.ts'
import type { CommandContext } from '../execute.ts'
import { changeRef } from '../git/record-refs.ts'

const tagRef = (tag: string) => `refs/tags/${tag}`

/** @throws Refused (unprocessable) when no tag can have the name */
export function requireTagName(tag: string): void {
  const problem = refNameProblem(tagRef(tag))
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`tag_name: ${problem}`))
}

/** The commit that `target_commitish` means: of a branch, a tag or an id. @throws Refused (not found) */
async function targetCommit(dir: string, target: string): Promise<string> {
  const branch = `refs/heads/${target}`
  const tip = refNameProblem(branch) === undefined ? await resolveRef(dir, branch) : null
  const sha = tip ?? (await commitOfTagOrId(dir, target))
  if (sha === undefined) throw new Refused(refuse.notFound(`target_commitish: ${target} is not found`))
  return sha
}

/** When the commit of a tag was made; undefined when the tag is not of a commit. */
async function timeOf(dir: string, tag: string): Promise<string | undefined> {
  const [header] = await objectReaders.headers(dir, [tag], { peel: true })
  if (header === undefined) return undefined
  const facts = (await commitFacts(dir, [header.sha])).get(header.sha)
  const at = Date.parse(facts?.committer.date ?? '')
  return Number.isNaN(at) ? undefined : comparableTime(at)
}

/**
 * Resolves to whether the tag was made now, and to the time by which the release is sorted: that of the commit of a tag
 * that was there, else that of the request.
 *
 * @throws Refused: not found for an unknown target, conflict when git cannot have both this tag and another one
 */
export async function ensureTag(
  services: Services,
  context: CommandContext,
  repoId: number,
  { tag, target }: Pick<ReleaseSettings, 'tag' | 'target'>,
): Promise<{ isNew: boolean; createdAt: string }> {
  const dir = gitDirOf(services, repoId)
  const there = await resolveRef(dir, tagRef(tag))
  if (there !== null) return { isNew: false, createdAt: (await timeOf(dir, there)) ?? context.at }
  const to = await targetCommit(dir, target)
  const outcome = await changeRef(services, context, repoId, 'tag-creation', {
    ref: tagRef(tag),
    from: null,
    to,
  })
  if (outcome === 'name-conflict') {
    throw new Refused(refuse.conflict(`tag_name: another tag's name begins with ${tag}/, or is its beginning`))
  }
  // Stale: somebody else has made it meanwhile.
  return { isNew: outcome === 'moved', createdAt: context.at }
}
