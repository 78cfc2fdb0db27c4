/**
 * The process that removes stars, watches and subscriptions of users without read access, and assignments without write
 * access, so that those users are neither counted nor listed. For deleted users it also removes reactions and keys.
 * Lists check the current permissions besides.
 */

import { accessTo } from '../../access/access.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { endAssignments, mayBeAssigned } from '../../commands/issues/end-assignments.ts'
import { removeSshKey } from '../../commands/keys/change.ts'
import { removeGpgKey } from '../../commands/keys/change-gpg.ts'
import { endSubscription } from '../../commands/notifications/end-subscription.ts'
import { endReaction } from '../../commands/reactions/change.ts'
import { endFollow } from '../../commands/repositories/follows/change.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import { repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import { followId } from '../../projections/models/repositories/follows.fold.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

/** Number of documents read at a time. */
const CHUNK = 200

/** Removes stars, watches and subscriptions of users without access. */
export function accessCleanup(services: Services) {
  const { accounts, follows, participations, repositories } = services.views

  /** Returns those whose user may not read the repository, or whose repository is deleted. */
  async function withoutAccess<Tie extends { repoId: number; userId: number }>(
    found: readonly Tie[],
  ): Promise<Tie[]> {
    const [users, places] = await Promise.all([
      accounts.getMany([...new Set(found.map(({ userId }) => `${userId}`))]),
      repositories.getMany([...new Set(found.map(({ repoId }) => `${repoId}`))]),
    ])
    const userById = new Map(users.map((user) => [user.id, user]))
    const repositoryById = new Map(places.map((repository) => [repository.id, repository]))
    return found.filter(({ repoId, userId }) => {
      const repository = repositoryById.get(repoId)
      const user = userById.get(userId)
      if (repository === undefined || user === undefined || user.deleted) return true
      return accessTo(repository, user) === 'none'
    })
  }

  async function checkFollows(context: CommandContext, ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += CHUNK) {
      const found = await follows.getMany(ids.slice(i, i + CHUNK))
      await forEachSettled(await withoutAccess(found), (follow) => endFollow(services, context, follow))
    }
  }

  /** Checks those of a user or a repository; `within` limits them to these repositories. */
  async function checkTies(
    context: CommandContext,
    filter: { repoId: number } | { userId: number },
    within?: ReadonlySet<string>,
  ): Promise<void> {
    const isWithin = (id: string) => within === undefined || within.has(`${repoIdIn(id)}`)
    await checkFollows(context, (await follows.ids(filter)).filter(isWithin))
    const ids = (await participations.ids({ ...filter, subscribed: true })).filter(isWithin)
    for (let i = 0; i < ids.length; i += CHUNK) {
      const found = await participations.getMany(ids.slice(i, i + CHUNK))
      await forEachSettled(await withoutAccess(found), (subscription) =>
        endSubscription(services, { ...context, actor: null }, subscription),
      )
    }
  }

  return { checkTies, checkFollows }
}

export function revokedAccess(services: Services): ProcessManager {
  const { accounts, gpgKeys, participations, reactions, repositories, sshKeys, teams } = services.views
  const { checkTies, checkFollows } = accessCleanup(services)

  /** Checks former team members in the repositories of the organization. */
  async function checkMembers(
    context: CommandContext,
    { organization, members }: { organization: AccountRef; members: readonly number[] },
  ): Promise<void> {
    const within = new Set(await repositories.ids({ ownerId: organization.id }))
    await forEachSettled(members, async (userId) => {
      await checkTies(context, { userId }, within)
      await endAssignments(services, context, userId, within)
    })
  }

  /** Checks a user in all repositories. */
  async function checkUser(context: CommandContext, userId: number): Promise<void> {
    await checkTies(context, { userId })
    await endAssignments(services, context, userId)
  }

  /** Checks all assignees of a repository. */
  async function checkAssignees(context: CommandContext, repoId: number): Promise<void> {
    const userIds = (await participations.ids({ repoId })).map((id) => Number(id.split('.').at(-1)))
    await forEachSettled(new Set(userIds), (userId) =>
      endAssignments(services, context, userId, new Set([`${repoId}`])),
    )
  }

  /** Checks new assignees: the permission may have ended during the request. */
  async function checkAssigned(context: CommandContext, { repoId }: IssueRef, people: readonly AccountRef[]) {
    if (people.length === 0) return
    const repository = await repositories.get(`${repoId}`)
    const users = await accounts.getMany(people.map(({ id }) => `${id}`))
    const lost = users.filter((user) => repository !== undefined && !mayBeAssigned(repository, user))
    await forEachSettled(lost, ({ id }) => endAssignments(services, context, id, new Set([`${repoId}`])))
  }

  const manager = processManager('lost_access', {
    async RepositoryEdited(context, { data: { repoId, changes } }) {
      if (changes.private === true) await checkTies(context, { repoId })
    },
    async OwnerVisibilityChanged(context, { data: { repoId, visibility } }) {
      if (visibility !== 'public') await checkTies(context, { repoId })
    },
    async RepositoryTransferred(context, { data: { repoId } }) {
      await checkTies(context, { repoId })
      await checkAssignees(context, repoId)
    },
    async TransferCanceled(context, { data: { recipient } }) {
      if (recipient.kind === 'user') await checkTies(context, { userId: recipient.id })
    },
    async CollaboratorRemoved(context, { data: { user } }) {
      await checkUser(context, user.id)
    },
    async CollaboratorSet(context, { data: { repoId, user, permission } }) {
      if (permission === 'read') await endAssignments(services, context, user.id, new Set([`${repoId}`]))
    },
    async MemberRemoved(context, { data: { user } }) {
      await checkUser(context, user.id)
    },
    async MemberSet(context, { data: { user, permission } }) {
      if (permission === 'read') await endAssignments(services, context, user.id)
    },
    async TeamMemberRemoved(context, { data: { organization, team, user } }) {
      // Leaving an organization produces an event for each of its teams.
      const hasAll = (await teams.get(`${team.id}`))?.allRepositories === true
      const of = hasAll ? { ownerId: organization.id } : { teams: team.id }
      const within = new Set(await repositories.ids(of))
      await checkTies(context, { userId: user.id }, within)
      await endAssignments(services, context, user.id, within)
    },
    async TeamRepositoryRemoved(context, { data: { repoId } }) {
      await checkTies(context, { repoId })
      await checkAssignees(context, repoId)
    },
    async TeamDeleted(context, { data }) {
      await checkMembers(context, data)
    },
    async TeamEdited(context, { data }) {
      // The permissions of the members change only when the event names them.
      await checkMembers(context, data)
    },
    async UserEdited(context, { data: { user, changes } }) {
      if (changes.siteAdmin === false) await checkUser(context, user.id)
    },
    async IssueOpened(context, { data }) {
      await checkAssigned(context, data, data.assignees)
    },
    async PullRequestOpened(context, { data }) {
      await checkAssigned(context, data, data.assignees)
    },
    async AssigneesChanged(context, { data }) {
      await checkAssigned(context, data, data.added)
    },
    // The permission may have ended during the request.
    async RepositoryStarred(context, { data: { repoId, user } }) {
      await checkFollows(context, [followId(repoId, user.id)])
    },
    async RepositoryWatched(context, { data: { repoId, user } }) {
      await checkFollows(context, [followId(repoId, user.id)])
    },
    async UserDeleted(context, { data: { user } }) {
      await checkUser(context, user.id)
      await forEachSettled(await sshKeys.find({ userId: user.id }), (key) =>
        removeSshKey(services, { ...context, actor: null }, key),
      )
      await forEachSettled(await gpgKeys.find({ userId: user.id }), (key) =>
        removeGpgKey(services, { ...context, actor: null }, key),
      )
      const ids = await reactions.ids({ userId: user.id })
      for (let i = 0; i < ids.length; i += CHUNK) {
        await forEachSettled(await reactions.getMany(ids.slice(i, i + CHUNK)), (reaction) =>
          endReaction(services, { ...context, actor: null }, reaction),
        )
      }
    },
  })
  return {
    ...manager,
    /** Most issues are opened without assignees. */
    concerns: ({ data }) => !('poster' in data) || data.assignees.length > 0,
  }
}
