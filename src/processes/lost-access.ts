/**
 * The process that ends what people made of a repository that they may not read any more: their stars and their watching.
 * So who lost access is neither counted nor listed. It also ends them, and the reactions, of users who are deleted, and
 * the stars of repositories that are. Lists ask for the present rights besides: they do not wait for this.
 */
import { eachOne } from '../commands/each-one.ts'
import type { CommandContext } from '../commands/execute.ts'
import { endFollow } from '../commands/follows/change.ts'
import { endReaction } from '../commands/reactions/change.ts'
import { type FollowDocument, followId } from '../projections/follows.ts'
import type { Filter } from '../projections/read-store.ts'
import { accessTo } from '../rights/access.ts'
import type { Services } from '../services.ts'
import { type ProcessManager, processManager } from './process-manager.ts'

/** Documents that are held at one time. */
const CHUNK = 200

export function lostAccess(services: Services): ProcessManager {
  const { accounts, follows, reactions, repositories } = services.views

  /** Those whose user may not read the repository, or whose repository is gone. */
  async function withoutAccess(found: readonly FollowDocument[]): Promise<FollowDocument[]> {
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

  async function reconsider(context: CommandContext, ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length; i += CHUNK) {
      const found = await follows.getMany(ids.slice(i, i + CHUNK))
      await eachOne(await withoutAccess(found), (follow) => endFollow(services, context, follow))
    }
  }

  const among = async (context: CommandContext, filter: Filter<FollowDocument>) =>
    reconsider(context, await follows.ids(filter))

  return processManager('lost_access', {
    async RepositoryEdited(context, { data: { repoId, changes } }) {
      if (changes.private === true) await among(context, { repoId })
    },
    async OwnerVisibilityChanged(context, { data: { repoId, visibility } }) {
      if (visibility !== 'public') await among(context, { repoId })
    },
    async RepositoryDeleted(context, { data: { repoId } }) {
      await among(context, { repoId })
    },
    async CollaboratorRemoved(context, { data: { repoId, user } }) {
      await reconsider(context, [followId(repoId, user.id)])
    },
    async MemberRemoved(context, { data: { user } }) {
      await among(context, { userId: user.id })
    },
    async UserEdited(context, { data: { user, changes } }) {
      if (changes.siteAdmin === false) await among(context, { userId: user.id })
    },
    // The right may have ended while the request was under way.
    async RepositoryStarred(context, { data: { repoId, user } }) {
      await reconsider(context, [followId(repoId, user.id)])
    },
    async RepositoryWatched(context, { data: { repoId, user } }) {
      await reconsider(context, [followId(repoId, user.id)])
    },
    async UserDeleted(context, { data: { user } }) {
      await among(context, { userId: user.id })
      const ids = await reactions.ids({ userId: user.id })
      for (let i = 0; i < ids.length; i += CHUNK) {
        await eachOne(await reactions.getMany(ids.slice(i, i + CHUNK)), (reaction) =>
          endReaction(services, { ...context, actor: null }, reaction),
        )
      }
    },
  })
}
