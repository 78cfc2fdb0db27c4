/** Creates a repository: `POST /user/repos`, `POST /orgs/{org}/repos`, `POST /admin/users/{username}/repos`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo, mayCreateIn } from '../../../access/access.ts'
import { OrganizationParams, organizationFor } from '../../../api/organizations/organizations.ts'
import { RepositoryWire, repositoryWire } from '../../../api/repositories/repositories.ts'
import { accountNamed, UsernameParams } from '../../../api/users/users.ts'
import { signedIn, siteAdmin } from '../../../auth/requester.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { coded, Refused, refuse } from '../../../errors/refusal.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import type { RepositorySettings } from '../../../events/catalog/repositories.ts'
import { claimKeys, gitStream, idsStream, repositoryStream } from '../../../events/streams.ts'
import { createFirstCommit } from '../../../git/commits/new-commit.ts'
import { newBranchNameProblem } from '../../../git/refs/names.ts'
import { createRepository } from '../../../git/repository/repository.ts'
import {
  type RepositoryDocument,
  repositoryFold,
} from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import { takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { earlierResult } from '../../execution/idempotency.ts'
import { load } from '../../execution/load.ts'
import { loadDocument } from '../../execution/load-document.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { reserveSpace } from '../../execution/reserve-space.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { moveRefs } from '../../git/change-refs.ts'
import { recordRefs } from '../../git/record-refs.ts'
import { currentVisibility } from '../../organizations/current-visibility.ts'
import { isBeingDeleted } from '../../users/accounts/deletion.ts'
import { signatureOf } from '../../users/accounts/signature.ts'
import { deleteWithClaims } from '../delete.ts'
import { watchNew } from '../follows/change.ts'
import { withOwnerVisibility } from '../ownership/owner-visibility.ts'
import { decideCreate, repositoryDecider } from '../repository.decider.ts'
import { requireRepositoryName } from '../repository-name.ts'
import { addDefaultLabels, FIRST_CONTENT, firstFiles } from './first-content.ts'

/** Estimated size of an empty repository, in bytes. */
const NEW_REPOSITORY_BYTES = 16 * 1024

const CreateRepoOption = Type.Object(
  {
    name: Type.String(),
    description: Type.Optional(Type.String({ maxLength: 2048 })),
    private: Type.Optional(Type.Boolean()),
    auto_init: Type.Optional(Type.Boolean()),
    default_branch: Type.Optional(Type.String()),
    template: Type.Optional(Type.Boolean()),
    ...FIRST_CONTENT,
  },
  { title: 'CreateRepoOption' },
)

/** Claims a name in the namespace of an owner. @throws Refused (conflict) when it is taken */
export async function claimRepositoryName(
  services: Services,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const stillHolds = async (other: string) => {
    const { state } = await load(services, other, repositoryDecider)
    return state.status === 'active' && claimKeys.repository(state.owner.id, state.settings.name) === key
  }
  const claim = await takeClaim(services, context, { key, holder, stillHolds })
  if (!claim.taken)
    throw new Refused(
      coded('repository_exists', refuse.conflict('a repository with the same name exists already')),
    )
}

/** Returns the organization, if the requester may create repositories in it. @throws Refused (not found, forbidden) */
export async function organizationToCreateIn(
  services: Services,
  request: FastifyRequest,
  login: string,
): Promise<AccountDocument> {
  const requester = signedIn(request)
  const organization = await organizationFor(services, request, login)
  if (!mayCreateIn(organization.id, requester)) {
    throw new Refused(
      refuse.forbidden('only members with write permission may create repositories of an organization'),
    )
  }
  return organization
}

/** Returns the creator if nothing else gives them access to the new repository: a member of a team. */
export function onlyCreator(creator: AccountDocument, owner: AccountDocument): AccountRef | undefined {
  const { id, login, siteAdmin: isSiteAdmin, memberships } = creator
  if (owner.kind === 'user' || isSiteAdmin || memberships[`${owner.id}`] !== undefined) return undefined
  return { id, login }
}

/** Deletes a new repository of an account that is being deleted. @throws Refused (conflict) then */
export async function requireOwnerStays(
  services: Services,
  context: CommandContext,
  owner: AccountDocument,
  repoId: number,
): Promise<void> {
  if (!(await isBeingDeleted(services, owner))) return
  await deleteWithClaims(services, context, { id: repoId, ownerId: owner.id })
  throw new Refused(refuse.conflict(`the account ${owner.login} is being deleted`))
}

/** Creates the first commit, of these files. */
async function initialize(
  services: Services,
  context: CommandContext,
  creator: AccountDocument,
  repoId: number,
  {
    defaultBranch,
    files,
  }: Pick<RepositorySettings, 'defaultBranch'> & { files: ReadonlyMap<string, string> },
): Promise<void> {
  const signature = signatureOf(services, creator, context.at)
  await moveRefs(services, repoId, async (since) => {
    // The branch of the first attempt may be deleted since.
    if (await earlierResult(services, context, gitStream(repoId), 'auto-init')) return
    const { sha, outcome } = await createFirstCommit(gitDirOf(services, repoId), {
      branch: defaultBranch,
      files,
      message: 'Initial commit\n',
      author: signature,
      committer: signature,
    })
    // The branch has its first commit already, by an earlier attempt or a push.
    if (outcome !== 'moved') return
    const ref = `refs/heads/${defaultBranch}`
    await recordRefs(services, context, repoId, 'auto-init', [{ ref, from: null, to: sha }], since)
  })
}

/** Returns a new repository for the answer. @throws Refused (not found) when it was deleted */
export function repositoryNow(services: Services, id: number): Promise<RepositoryDocument> {
  const source = { id, stream: repositoryStream(id), view: services.views.repositories, fold: repositoryFold }
  return loadDocument(services, 'repository', source)
}

export const createRepositoryRoutes: Routes = (services) => {
  async function create(
    request: FastifyRequest,
    reply: FastifyReply,
    creator: AccountDocument,
    owner: AccountDocument,
    body: Static<typeof CreateRepoOption>,
  ) {
    const name = requireRepositoryName(body.name)
    const defaultBranch = body.default_branch || 'main'
    const problem = newBranchNameProblem(defaultBranch)
    if (problem !== undefined) throw new Refused(refuse.unprocessable(`default_branch: ${problem}`))
    const settings = {
      name,
      description: body.description ?? '',
      website: '',
      private: body.private ?? false,
      defaultBranch,
    }
    const context = commandContext(request)
    const year = new Date(context.at).getUTCFullYear()
    const files = await firstFiles(body, { name, owner: owner.login, year })
    const repoId = await takeNumber(services, context, idsStream('repository'))
    // A retried request may find its repository created, or deleted.
    const status = (await repositories.ifDone(services, context, repoId, 'create'))?.status
    if (status === undefined) {
      const { id, login, kind } = owner
      const reservation = await reserveSpace(services, { owner, repoId, bytes: NEW_REPOSITORY_BYTES })
      reservation.end('dropped')
      await claimRepositoryName(services, context, claimKeys.repository(id, name), repositoryStream(repoId))
      await createRepository(gitDirOf(services, repoId), { defaultBranch })
      await withOwnerVisibility(services, context, owner, repoId, () =>
        repositories.change(services, context, repoId, 'create', async (state) =>
          decideCreate(state, {
            repoId,
            owner: { id, login, kind },
            ownerVisibility: await currentVisibility(services, owner),
            settings,
            template: body.template ?? false,
            creator: onlyCreator(creator, owner),
          }),
        ),
      )
    }
    if (status !== 'deleted') await requireOwnerStays(services, context, owner, repoId)
    if (status !== 'deleted') {
      await watchNew(services, context, { repoId, owner, creator })
      if (files.size > 0) await initialize(services, context, creator, repoId, { defaultBranch, files })
      if (body.issue_labels) await addDefaultLabels(services, context, repoId)
    }
    await settled(services, context, reply)
    const repository = await repositoryNow(services, repoId)
    return reply
      .code(201)
      .send(repositoryWire(repository, owner, accessTo(repository, creator), services.publicUrl()))
  }

  return async (app) => {
    const schema = { body: CreateRepoOption, response: { 201: RepositoryWire } }

    app.post('/user/repos', route('repository', schema), async (request, reply) => {
      const requester = signedIn(request)
      return create(request, reply, requester, requester, request.body)
    })

    // The second path is an older name in Gitea, which clients such as Terraform use.
    for (const path of ['/orgs/:org/repos', '/org/:org/repos']) {
      app.post(
        path,
        route('repository', { ...schema, params: OrganizationParams }),
        async (request, reply) => {
          const requester = signedIn(request)
          const organization = await organizationToCreateIn(services, request, request.params.org)
          return create(request, reply, requester, organization, request.body)
        },
      )
    }

    app.post(
      '/admin/users/:username/repos',
      route('admin', { ...schema, params: UsernameParams }),
      async (request, reply) => {
        const requester = siteAdmin(request, 'create repositories for other users')
        const owner = await accountNamed(services, request.params.username)
        return create(request, reply, requester, owner, request.body)
      },
    )
  }
}
