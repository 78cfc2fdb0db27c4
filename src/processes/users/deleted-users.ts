/**
 * The process that removes belongings of deleted accounts after a crash. A request that gives an account something
 * records it first and then checks for a deletion; a crash in between leaves it unacknowledged, so it is removed here.
 * Also removes what an organization owned. The later one of the two events finds the other.
 */
import { labels, pulls, repositories } from '../../commands/execution/aggregates.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { removeSshKey } from '../../commands/keys/change.ts'
import { removeGpgKey } from '../../commands/keys/change-gpg.ts'
import { decideDeleteLabel } from '../../commands/labels/label.decider.ts'
import {
  leaveTeams,
  organizationsIn,
  removeDeletedMember,
} from '../../commands/organizations/deleted-members.ts'
import { deleteWithClaims } from '../../commands/repositories/delete.ts'
import { endTransfersTo } from '../../commands/repositories/ownership/end-transfers.ts'
import { decideForgetUser } from '../../commands/repositories/ownership/ownership.decider.ts'
import { decideRemoveRequests } from '../../commands/reviews/review-request.decider.ts'
import type { LabelScope } from '../../events/catalog/labels.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import { scopeKey } from '../../projections/models/labels/labels.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

export function deletedUsers(services: Services): ProcessManager {
  const { accounts, repositories: documents } = services.views
  const isGhost = async (id: number) => (await accounts.get(`${id}`))?.deleted === true

  async function deleteOwned(context: CommandContext, repository: RepositoryDocument | undefined) {
    if (repository === undefined) return
    // The request may have removed it itself.
    if ((await repositories.load(services, repository.id)).status !== 'active') return
    await deleteWithClaims(services, { ...context, actor: null }, repository)
  }

  async function removeCollaborator(context: CommandContext, repoId: number, user: AccountRef) {
    await repositories.change(services, { ...context, actor: null }, repoId, 'remove collaborator', (state) =>
      decideForgetUser(state, user),
    )
  }

  /** A review request to a deleted user would block merges forever. */
  async function endRequest(context: CommandContext, pull: IssueRef, user: AccountRef) {
    await pulls.change(services, { ...context, actor: null }, pull, 'remove review requests', (state) =>
      state.status === 'none' ? [] : decideRemoveRequests(state, [user]),
    )
  }

  return processManager('deleted_users', {
    async ReviewRequested(context, { data }) {
      if (await isGhost(data.reviewer.id)) await endRequest(context, data, data.reviewer)
    },
    async SshKeyAdded(context, { data: { keyId: id, user, fingerprint } }) {
      if (!(await isGhost(user.id))) return
      await removeSshKey(services, { ...context, actor: null }, { id, fingerprint })
    },
    async GpgKeyAdded(context, { data: { keyId: id, user, primary } }) {
      if (!(await isGhost(user.id))) return
      await removeGpgKey(services, { ...context, actor: null }, { id, primary })
    },
    async RepositoryCreated(context, { data: { repoId, owner } }) {
      if (await isGhost(owner.id)) await deleteOwned(context, await documents.get(`${repoId}`))
    },
    async MemberSet(context, { data: { organization, user } }) {
      if (await isGhost(user.id)) await removeDeletedMember(services, context, organization.id, user)
    },
    async TeamMemberAdded(context, { data: { organization, user } }) {
      if (await isGhost(user.id)) await leaveTeams(services, context, organization.id, user)
    },
    async CollaboratorSet(context, { data: { repoId, user } }) {
      if (await isGhost(user.id)) await removeCollaborator(context, repoId, user)
    },
    async TransferStarted(context, { data: { repoId, recipient } }) {
      if (await isGhost(recipient.id)) await removeCollaborator(context, repoId, recipient)
    },
    async UserDeleted(context, { data: { user } }) {
      for (const pull of await services.views.pulls.find({ requestedReviewerIds: user.id })) {
        await endRequest(context, pull, user)
      }
      for (const repository of await documents.find({ ownerId: user.id }))
        await deleteOwned(context, repository)
      for (const id of await documents.ids({ readers: user.id }))
        await removeCollaborator(context, Number(id), user)
      const { memberships = {}, teams = {} } = (await accounts.get(`${user.id}`)) ?? {}
      for (const id of organizationsIn(teams)) await leaveTeams(services, context, id, user)
      for (const id of Object.keys(memberships))
        await removeDeletedMember(services, context, Number(id), user)
    },
    async OrganizationDeleted(context, { data: { organization } }) {
      const own = { ...context, actor: null }
      for (const repository of await documents.find({ ownerId: organization.id })) {
        await deleteOwned(context, repository)
      }
      await endTransfersTo(services, own, organization)
      const scope: LabelScope = { kind: 'organization', organizationId: organization.id }
      await forEachSettled(await services.views.labels.ids({ scopeKey: scopeKey(scope) }), async (id) => {
        await labels.change(services, own, Number(id), 'delete label', (state) =>
          state.status === 'active' ? decideDeleteLabel(state, scope) : [],
        )
      })
    },
  })
}
