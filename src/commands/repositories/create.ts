/** Creates a repository: `POST /user/repos`, `POST /orgs/{org}/repos`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { RepositorySettings } from '../../events/domain-events.ts'
import { claimKeys, idsStream, repositoryStream } from '../../events/streams.ts'
import { branchNameProblem } from '../../git/names.ts'
import { createFirstCommit } from '../../git/new-commit.ts'
import { createRepository } from '../../git/repository.ts'
import type { AccountDocument } from '../../projections/accounts.ts'
import { Refused, refuse } from '../../refusal.ts'
import { accessTo } from '../../rights/access.ts'
import { signedIn } from '../../rights/requester.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { organizationFor } from '../../wire/organizations.ts'
import { RepositoryWire, repositoryWire } from '../../wire/repositories.ts'
import { signatureOf } from '../accounts/signature.ts'
import { takeClaim } from '../claims.ts'
import { type CommandContext, execute, load } from '../execute.ts'
import { moveRefs, recordRefs } from '../git/record-refs.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { decideCreate, repositoryDecider } from './repository.ts'
import { requireRepositoryName } from './repository-name.ts'

const CreateRepoOption = Type.Object({
  name: Type.String(),
  description: Type.Optional(Type.String({ maxLength: 2048 })),
  private: Type.Optional(Type.Boolean()),
  auto_init: Type.Optional(Type.Boolean()),
  default_branch: Type.Optional(Type.String()),
})

/** Whether the repository in a stream has that name now. Used for claims that a crash may have left behind. */
async function holdsRepositoryName(services: Services, holder: string, key: string): Promise<boolean> {
  const { state } = await load(services.events, holder, repositoryDecider)
  return state.status === 'active' && claimKeys.repository(state.owner.id, state.settings.name) === key
}

/** Claims a name among the repositories of an owner. @throws Refused (conflict) when another repository has it */
export async function claimRepositoryName(
  services: Services,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const stillHolds = (other: string) => holdsRepositoryName(services, other, key)
  const claim = await takeClaim(services.events, context, { key, holder, stillHolds })
  if (!claim.taken) throw new Refused(refuse.conflict('a repository with the same name exists already'))
}

/** The organization in which the requester may create repositories. @throws Refused (not found, forbidden) */
export async function organizationToCreateIn(
  services: Services,
  request: FastifyRequest,
  login: string,
): Promise<AccountDocument> {
  const requester = signedIn(request)
  const organization = await organizationFor(services, request, login)
  const permission = requester.memberships[`${organization.id}`]
  if (!requester.siteAdmin && permission !== 'write' && permission !== 'admin') {
    throw new Refused(refuse.forbidden('only members who may write create repositories of an organization'))
  }
  return organization
}

/** The status of the repository that a request creates. A retried request may find it created, or deleted since. */
export async function statusBefore(services: Services, context: CommandContext, repoId: number) {
  if (context.retry === undefined) return 'none'
  const command = { stream: repositoryStream(repoId), step: 'create', decider: repositoryDecider }
  return (await execute(services.events, context, { ...command, decide: () => [] })).status
}

async function createOwned(
  services: Services,
  context: CommandContext,
  creator: AccountDocument,
  owner: AccountDocument,
  settings: RepositorySettings,
  autoInit: boolean,
): Promise<number> {
  const repoId = await takeNumber(services.events, context, idsStream('repository'))
  const stream = repositoryStream(repoId)
  const status = await statusBefore(services, context, repoId)
  if (status === 'none') {
    const key = claimKeys.repository(owner.id, settings.name)
    await claimRepositoryName(services, context, key, stream)
    await createRepository(gitDirOf(services, repoId), { defaultBranch: settings.defaultBranch })
    await execute(services.events, context, {
      stream,
      step: 'create',
      decider: repositoryDecider,
      decide: (state) =>
        decideCreate(state, {
          repoId,
          owner: { id: owner.id, login: owner.login, kind: owner.kind },
          settings,
        }),
    })
  }
  if (autoInit && status !== 'deleted') await initialize(services, context, creator, repoId, settings)
  return repoId
}

/** Makes the first commit: a README. */
async function initialize(
  services: Services,
  context: CommandContext,
  creator: AccountDocument,
  repoId: number,
  { name, description, defaultBranch }: RepositorySettings,
): Promise<void> {
  const signature = signatureOf(creator, context.at)
  await moveRefs(services, repoId, async () => {
    const { sha, outcome } = await createFirstCommit(gitDirOf(services, repoId), {
      branch: defaultBranch,
      files: new Map([['README.md', `# ${name}\n${description === '' ? '' : `\n${description}\n`}`]]),
      message: 'Initial commit\n',
      author: signature,
      committer: signature,
    })
    // The branch has its first commit already: this is a retried request, or a push was faster.
    if (outcome !== 'moved') return
    const ref = `refs/heads/${defaultBranch}`
    await recordRefs(services, context, repoId, 'auto-init', [{ ref, from: null, to: sha }])
  })
}

export function createRepositoryRoutes(services: Services): FastifyPluginAsyncTypebox {
  async function create(
    request: FastifyRequest,
    reply: FastifyReply,
    creator: AccountDocument,
    owner: AccountDocument,
    body: Static<typeof CreateRepoOption>,
  ) {
    const name = requireRepositoryName(body.name)
    const defaultBranch = body.default_branch || 'main'
    const problem = branchNameProblem(defaultBranch)
    if (problem !== undefined) throw new Refused(refuse.unprocessable(`default_branch: ${problem}`))
    const settings = {
      name,
      description: body.description ?? '',
      website: '',
      private: body.private ?? false,
      defaultBranch,
    }
    const context = commandContext(request)
    const repoId = await createOwned(services, context, creator, owner, settings, body.auto_init ?? false)
    await settled(services, context, reply)
    const repository = await services.views.repositories.get(`${repoId}`)
    if (repository === undefined) throw new Refused(refuse.notFound('repository not found'))
    return reply
      .code(201)
      .send(repositoryWire(repository, owner, accessTo(repository, creator), services.publicUrl()))
  }

  return async (app) => {
    const schema = { tags: ['repository'], body: CreateRepoOption, response: { 201: RepositoryWire } }

    app.post('/user/repos', { schema }, async (request, reply) => {
      const requester = signedIn(request)
      return create(request, reply, requester, requester, request.body)
    })

    app.post(
      '/orgs/:org/repos',
      { schema: { ...schema, params: Type.Object({ org: Type.String() }) } },
      async (request, reply) => {
        const requester = signedIn(request)
        const organization = await organizationToCreateIn(services, request, request.params.org)
        return create(request, reply, requester, organization, request.body)
      },
    )
  }
}
