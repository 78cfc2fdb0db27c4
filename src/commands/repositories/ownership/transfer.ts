/**
 * Transfers a repository to another owner: `POST /repos/{owner}/{repo}/transfer`, `/transfer/accept`,
 * `/transfer/reject`.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo, atLeast, mayAnswerTransfer, mayCreateIn, owns } from '../../../access/access.ts'
import { movedRepository, onRepository, repositoryNamed } from '../../../access/repository-access.ts'
import { canSee, isMemberOf } from '../../../access/visibility.ts'
import { RepositoryParams, RepositoryWire, repositoryPage } from '../../../api/repositories/repositories.ts'
import { accountNamed } from '../../../api/users/users.ts'
import { signedIn } from '../../../auth/requester.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../../errors/refusal.ts'
import type { Visibility } from '../../../events/catalog/organizations.ts'
import type { PendingTransfer } from '../../../events/catalog/repositories.ts'
import { hasValidBody } from '../../../http/requests/deferred-validation.ts'
import {
  type RepositoryDocument,
  repositoryKey,
} from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../../projections/views/view.ts'
import type { Services } from '../../../services/services.ts'
import { organizations, repositories, users } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import type { Decision } from '../../execution/decider.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { reserveQuota } from '../../execution/reserve-space.ts'
import { currentVisibility } from '../../organizations/current-visibility.ts'
import { withOrganizationLock } from '../../organizations/organization-lock.ts'
import { MAX_TEAMS } from '../../organizations/team.decider.ts'
import { isBeingDeleted } from '../../users/accounts/deletion.ts'
import { withSiteAdminLock } from '../../users/change.ts'
import { repositoryNow } from '../creation/create.ts'
import { moveRepository } from '../move.ts'
import type { RepositoryEvent, RepositoryState } from '../repository.decider.ts'
import { hideLikeOwner } from './owner-visibility.ts'
import {
  decideAcceptTransfer,
  decideCancelTransfer,
  decideForgetUser,
  decideStartTransfer,
  decideTransfer,
  noTransfer,
} from './ownership.decider.ts'
import { giveToTeams, type Transferred } from './transferred-teams.ts'

const TransferRepoOption = Type.Object(
  {
    new_owner: Type.String({ minLength: 1 }),
    team_ids: Type.Optional(
      Type.Array(Type.Integer(), {
        maxItems: MAX_TEAMS,
        description: 'Ids of teams of the new owner, an organization, that get access',
      }),
    ),
  },
  { title: 'TransferRepoOption' },
)

type Request = FastifyRequest & { params: Static<typeof RepositoryParams> }
type Step = 'start transfer' | 'transfer' | 'cancel transfer'

const refOf = ({ id, login }: AccountDocument) => ({ id, login })
const mayAnswer = ({ transfer }: RepositoryDocument, requester: AccountDocument | null): boolean =>
  transfer != null && requester !== null && mayAnswerTransfer(transfer, requester)
const ownerRefOf = ({ id, login, kind }: AccountDocument) => ({ id, login, kind })

/** @throws Refused (not found), also for a hidden account */
async function newOwnerNamed(services: Services, requester: AccountDocument, login: string) {
  const account = await accountNamed(services, login)
  if (!account.deleted && canSee(account, requester)) return account
  throw notFoundIn(services.views.accounts, 'user not found')
}

/**
 * Returns the ids of these teams, each once. @throws Refused: unprocessable for unknown ones, forbidden for other
 * owners' teams
 */
async function teamsOf(
  services: Services,
  requester: AccountDocument,
  recipient: AccountDocument,
  ids: readonly number[],
) {
  if (recipient.kind !== 'organization') {
    const problem = 'team_ids: only repositories of organizations have teams'
    throw new Refused(refuse.unprocessable(problem, [problem]))
  }
  const wanted = [...new Set(ids)]
  const teams = new Map(
    (await services.views.teams.getMany(wanted.map(String))).map((team) => [team.id, team]),
  )
  for (const id of wanted) {
    const team = teams.get(id)
    const isOther = team !== undefined && team.organizationId !== recipient.id
    const isKnown = requester.siteAdmin || (team && isMemberOf(team.organizationId, requester))
    if (team === undefined || (isOther && !isKnown)) {
      throw new Refused(refuse.unprocessable(`team_ids: team ${id} not found`))
    }
    if (isOther) {
      throw new Refused(refuse.forbidden(`team_ids: team ${id} is not of ${recipient.login}`))
    }
  }
  return wanted
}

/**
 * Refuses a taken name early, with 422 as in Gitea. Only the claim is authoritative. @throws Refused (unprocessable)
 */
async function requireFreeName(
  { views }: Services,
  { login }: AccountDocument,
  { id, name }: RepositoryDocument,
) {
  const other = await views.repositories.findOne({ key: repositoryKey(login, name) })
  if (other === undefined || other.id === id) return
  const problem = `new_owner: ${login} has a repository with the name ${name} already`
  throw new Refused(refuse.unprocessable(problem, [problem]))
}

/**
 * Transfers the repository: quota, claims, event, teams. A lock prevents a transfer to an account that is being
 * deleted.
 */
async function transferNow(
  services: Services,
  context: CommandContext,
  { id }: RepositoryDocument,
  owner: AccountDocument,
  decide: (state: RepositoryState, ownerVisibility: Visibility) => Decision<RepositoryEvent>,
): Promise<void> {
  const bytes = (await services.diskUsage.get(id))?.totalBytes ?? 0
  const reservation = await reserveQuota(services, { owner, repoId: id, bytes })
  let transferred: Transferred | undefined
  const decideAndKeep = (state: RepositoryState, ownerVisibility: Visibility) => {
    const decision = decide(state, ownerVisibility)
    if (!isRefusal(decision)) {
      transferred = decision.find((event) => event.type === 'RepositoryTransferred')?.data
    }
    return decision
  }
  const isThere = async () =>
    owner.kind === 'user'
      ? (await users.load(services, owner.id)).status === 'existing'
      : (await organizations.load(services, owner.id)).status === 'active'
  const move = async () => {
    if (!(await isThere())) throw new Refused(beingDeleted(owner))
    const ownerVisibility = await currentVisibility(services, owner)
    await moveRepository(services, context, id, 'transfer', (state) => decideAndKeep(state, ownerVisibility))
    await hideLikeOwner(services, context, owner, id)
  }
  try {
    await (owner.kind === 'user'
      ? withSiteAdminLock(services, move)
      : withOrganizationLock(services, owner.id, move))
  } finally {
    // After the event the repository itself counts for its owner.
    reservation.end('dropped')
  }
  // After a crash the process `transfers` continues.
  if (transferred !== undefined) await giveToTeams(services, context, transferred)
}

const beingDeleted = ({ login }: AccountDocument) => refuse.conflict(`the account ${login} is being deleted`)

/** Offers the repository to its recipient, who may read it from then on. */
async function offer(
  services: Services,
  context: CommandContext,
  { id, ownerId }: RepositoryDocument,
  recipient: AccountDocument,
  transfer: PendingTransfer,
): Promise<void> {
  await repositories.change(services, context, id, 'start transfer', (state) =>
    decideStartTransfer(state, ownerId, transfer),
  )
  // A deletion looks for belongings after its claim, and this looks for the claim after its event.
  if (!(await isBeingDeleted(services, recipient))) return
  await repositories.change(services, context, id, 'forget user', (state) =>
    decideForgetUser(state, refOf(recipient)),
  )
  throw new Refused(beingDeleted(recipient))
}

export const transferRoutes: Routes = (services) => {
  async function answer(
    request: Request,
    reply: FastifyReply,
    context: CommandContext,
    id: number,
    status: 200 | 201 | 202,
  ) {
    const requester = signedIn(request)
    await settled(services, context, reply)
    const now = await repositoryNow(services, id)
    return reply.code(status).send(await repositoryPage(services, now, accessTo(now, requester), requester))
  }

  /**
   * Returns the context, and the id of the repository that the path names or named: a first attempt may have moved it.
   * @throws Refused (not found) for a requester who may neither read it nor answer its transfer
   */
  async function contextOf(request: Request): Promise<{ context: CommandContext; repoId: number }> {
    const { params, requester } = request
    const repository = (await repositoryNamed(services, params)) ?? (await movedRepository(services, params))
    const isShown =
      repository && (atLeast(accessTo(repository, requester), 'read') || mayAnswer(repository, requester))
    if (!isShown) throw notFoundIn(services.views.repositories, 'repository not found')
    request.repositoryId = repository.id
    return { context: commandContext(request), repoId: repository.id }
  }

  /** Returns whether the first attempt of a retried request has done this step. */
  const isDone = async (context: CommandContext, repoId: number, step: Step) =>
    (await repositories.ifDone(services, context, repoId, step)) !== undefined

  /**
   * Returns the repository with its pending transfer, for those who may answer it or read it.
   * @throws Refused (not found), also without a transfer
   */
  async function pendingOf(request: Request) {
    const named = await repositoryNamed(services, request.params)
    const isRecipient = named !== undefined && mayAnswer(named, request.requester)
    const repository =
      named !== undefined && isRecipient ? named : (await onRepository(services, request, 'read')).repository
    const by = signedIn(request)
    if (!repository.transfer) throw new Refused(noTransfer)
    return { repository, transfer: repository.transfer, by, isRecipient }
  }

  /** @throws Refused unless the requester may transfer the repository */
  async function ownedBy(request: Request) {
    const { repository } = await onRepository(services, request, 'admin')
    const requester = signedIn(request)
    if (owns(repository, requester)) return { repository, requester }
    throw new Refused(refuse.forbidden('only the owner of the repository may transfer it'))
  }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/transfer',
      route('repository', {
        params: RepositoryParams,
        body: TransferRepoOption,
        response: { 201: RepositoryWire, 202: RepositoryWire },
      }),
      async (request, reply) => {
        if (!hasValidBody(request)) await ownedBy(request)
        const { context, repoId } = await contextOf(request)
        if (await isDone(context, repoId, 'transfer')) return answer(request, reply, context, repoId, 202)
        if (await isDone(context, repoId, 'start transfer'))
          return answer(request, reply, context, repoId, 201)

        const { repository, requester } = await ownedBy(request)
        const { new_owner: login, team_ids: ids } = request.body
        const owner = await newOwnerNamed(services, requester, login)
        const teamIds = ids ? await teamsOf(services, requester, owner, ids) : []
        await requireFreeName(services, owner, repository)
        const isOrganization = owner.kind === 'organization'
        const isDirect =
          requester.siteAdmin ||
          requester.id === owner.id ||
          (isOrganization && mayCreateIn(owner.id, requester))
        const to = ownerRefOf(owner)
        const { id, ownerId } = repository
        if (isDirect) {
          await transferNow(services, context, repository, owner, (state, ownerVisibility) =>
            decideTransfer(state, ownerId, { owner: to, ownerVisibility, teamIds }),
          )
          return answer(request, reply, context, id, 202)
        }
        const transfer = { sender: refOf(requester), recipient: to, teamIds }
        await offer(services, context, repository, owner, transfer)
        return answer(request, reply, context, id, 201)
      },
    )

    app.post(
      '/repos/:owner/:repo/transfer/accept',
      route('repository', { params: RepositoryParams, response: { 202: RepositoryWire } }),
      async (request, reply) => {
        const { context, repoId } = await contextOf(request)
        if (await isDone(context, repoId, 'transfer')) return answer(request, reply, context, repoId, 202)
        const { repository, transfer, isRecipient } = await pendingOf(request)
        if (!isRecipient) {
          throw new Refused(refuse.forbidden(`only ${transfer.recipient.login} may accept the transfer`))
        }
        const owner = await accountNamed(services, transfer.recipient.login)
        await requireFreeName(services, owner, repository)
        await transferNow(services, context, repository, owner, (state, ownerVisibility) =>
          decideAcceptTransfer(state, { owner: ownerRefOf(owner), ownerVisibility }),
        )
        return answer(request, reply, context, repository.id, 202)
      },
    )

    app.post(
      '/repos/:owner/:repo/transfer/reject',
      route('repository', { params: RepositoryParams, response: { 200: RepositoryWire } }),
      async (request, reply) => {
        const { context, repoId } = await contextOf(request)
        if (await isDone(context, repoId, 'cancel transfer'))
          return answer(request, reply, context, repoId, 200)
        const { repository, transfer, by, isRecipient } = await pendingOf(request)
        if (!isRecipient && by.id !== transfer.sender.id && !owns(repository, by)) {
          throw new Refused(refuse.forbidden('only its recipient and its sender may end the transfer'))
        }
        await repositories.change(services, context, repository.id, 'cancel transfer', (state) =>
          decideCancelTransfer(state, transfer.recipient.id),
        )
        return answer(request, reply, context, repository.id, 200)
      },
    )
  }
}
