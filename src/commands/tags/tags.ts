/** Creates and deletes tags, in git and in the log. */
import type { FastifyRequest } from 'fastify'
import { mayControlTag } from '../../access/tag-protection-rules.ts'
import { memberOf } from '../../access/team-membership.ts'
import { type Caller, requireServed } from '../../api/contents/reached-objects.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import { newRefProblem, refNameProblem } from '../../git/refs/names.ts'
import { resolveRef } from '../../git/refs/refs.ts'
import { storeTag } from '../../git/refs/tags.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { reserveSpace } from '../execution/reserve-space.ts'
import { changeRef } from '../git/change-refs.ts'
import { reauthorizeWriter } from '../git/reauthorize-writer.ts'
import { signatureOf } from '../users/accounts/signature.ts'

/** Estimated size of a tag object and its ref without the message, in bytes. */
const TAG_BYTES = 8 * 1024

/** The repository and the requester of a change, whose write access is checked already. */
export interface Tagging {
  repository: RepositoryDocument
  requester: AccountDocument
  request: FastifyRequest
}

/** A new tag, with the client that is charged for lookups. */
export interface NewTagging extends Omit<Tagging, 'request'> {
  caller: Caller
}

const refOf = (name: string) => `refs/tags/${name}`

/** @throws Refused (unprocessable) for an invalid name */
export function requireTagName(name: string): void {
  const problem = newRefProblem(refOf(name))
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`tag_name: ${problem}`))
}

/** Checks tag protections (`mayControlTag`). @throws Refused (unprocessable) */
async function requireTagPermission(
  { views }: Pick<Services, 'views'>,
  { repository, requester }: Pick<Tagging, 'repository' | 'requester'>,
  name: string,
): Promise<void> {
  const { protections = [] } = (await views.tagProtections.get(`${repository.id}`)) ?? {}
  if (mayControlTag(protections, name, memberOf(repository, requester))) return
  throw new Refused(refuse.unprocessable(`tag_name: ${name} is protected; you may not create or delete it`))
}

/** Checks tag protections and write access again under the ref lock. */
async function requirePresentTagPermission(
  services: Services,
  { repository, request }: Pick<Tagging, 'repository' | 'request'>,
  name: string,
): Promise<void> {
  await requireTagPermission(services, await reauthorizeWriter(services, request, repository.id), name)
}

/**
 * Creates a tag of a commit, with a tag object when there is a message. Resolves to the target of its ref.
 * @throws Refused: unprocessable for an invalid name or a protected tag, conflict with an existing tag or its path
 */
export async function createTag(
  services: Services,
  context: CommandContext,
  tagging: NewTagging,
  { name, commit, message }: { name: string; commit: string; message: string },
): Promise<string> {
  requireTagName(name)
  const { repository, requester, caller } = tagging
  await requireTagPermission(services, tagging, name)
  const { id: repoId, ownerId, ownerLogin } = repository
  const dir = gitDirOf(services, repoId)
  const owner = { id: ownerId, login: ownerLogin }
  const reservation = await reserveSpace(services, { owner, repoId, bytes: TAG_BYTES + 4 * message.length })
  let written = false
  try {
    // A retried request would make an object with another time. The existing tag is enough.
    const known = context.retry === undefined ? null : await resolveRef(dir, refOf(name))
    const tagger = signatureOf(services, requester, context.at)
    const to =
      known ?? (message.trim() === '' ? commit : await storeTag(dir, { name, commit, message, tagger }))
    const change = { ref: refOf(name), from: null, to }
    const outcome = await changeRef(services, context, repoId, 'tag-creation', change, async () => {
      await requirePresentTagPermission(services, { repository, request: caller.request }, name)
      await requireServed(services, caller, repository, commit)
    })
    if (outcome === 'stale')
      throw new Refused(coded('tag_exists', refuse.conflict(`tag_name: the tag ${name} already exists`)))
    if (outcome === 'name-conflict') {
      throw new Refused(
        refuse.conflict(`tag_name: the name of another tag begins with ${name}/, or is the beginning of it`),
      )
    }
    written = true
    // Another attempt of the request may have created it, with another time.
    return context.retry === undefined ? to : ((await resolveRef(dir, refOf(name))) ?? to)
  } finally {
    reservation.end(written ? 'written' : 'dropped')
  }
}

/**
 * Deletes a tag. @throws Refused: not found, unprocessable for a protected tag, conflict when it has moved meanwhile
 */
export async function deleteTag(
  services: Services,
  context: CommandContext,
  tagging: Tagging,
  name: string,
): Promise<void> {
  const ref = refOf(name)
  const { repository } = tagging
  const problem = refNameProblem(ref)
  const from = problem === undefined ? await resolveRef(gitDirOf(services, repository.id), ref) : null
  if (from === null) throw new Refused(refuse.notFound('tag not found'))
  await requireTagPermission(services, tagging, name)
  const change = { ref, from, to: null }
  const outcome = await changeRef(services, context, repository.id, 'tag-deletion', change, () =>
    requirePresentTagPermission(services, tagging, name),
  )
  if (outcome !== 'moved') throw new Refused(refuse.conflict('a push has moved the tag in the meantime'))
}
