/** Creates the tag of a published release, unless it exists. */

import { servedCommitOf } from '../../api/contents/reached-objects.ts'
import { comparableTime } from '../../domain/times.ts'
import { gitStream } from '../../events/streams.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { resolveRef } from '../../git/refs/refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { earlierResult } from '../execution/idempotency.ts'
import { createTag, type NewTagging } from '../tags/tags.ts'

const refOf = (tag: string) => `refs/tags/${tag}`

/** Returns the time of a tag's commit; undefined when the tag is not of a commit. */
async function timeOf(dir: string, object: string): Promise<string | undefined> {
  const [header] = await objectReaders.headers(dir, [object], { peel: true })
  if (header === undefined) return undefined
  const facts = (await commitFacts(dir, [header.sha])).get(header.sha)
  const at = Date.parse(facts?.committer.date ?? '')
  return Number.isNaN(at) ? undefined : comparableTime(at)
}

/** The tag of a release, with target and message for a missing one. */
interface WantedTag {
  tag: string
  target: string
  message: string
}

/**
 * Creates the tag if it is missing. Resolves to whether it did, and to the time that sorts the release: that of the
 * commit of an existing tag, else that of the request. @throws Refused: not found for an unknown target, and as
 * `createTag`
 */
export async function ensureTag(
  services: Services,
  context: CommandContext,
  tagging: NewTagging,
  { tag, target, message }: WantedTag,
): Promise<{ isNew: boolean; createdAt: string }> {
  const dir = gitDirOf(services, tagging.repository.id)
  const { repository } = tagging
  // An earlier attempt of the request may have created it.
  if (await earlierResult(services, context, gitStream(repository.id), 'tag-creation'))
    return { isNew: true, createdAt: context.at }
  const there = await resolveRef(dir, refOf(tag))
  if (there !== null) return { isNew: false, createdAt: (await timeOf(dir, there)) ?? context.at }
  const commit = await servedCommitOf(services, tagging.caller, repository, target)
  await createTag(services, context, tagging, { name: tag, commit, message })
  return { isNew: true, createdAt: context.at }
}
