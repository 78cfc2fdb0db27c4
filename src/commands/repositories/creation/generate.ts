/** Creates a repository from a template: `POST /repos/{owner}/{repo}/generate`. */
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo } from '../../../access/access.ts'
import { onRepository } from '../../../access/repository-access.ts'
import { canSee } from '../../../access/visibility.ts'
import { RepositoryParams, RepositoryWire, repositoryPage } from '../../../api/repositories/repositories.ts'
import { accountNamed } from '../../../api/users/users.ts'
import { signedIn } from '../../../auth/requester.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { claimKeys, gitStream, idsStream, repositoryStream } from '../../../events/streams.ts'
import { newBranchNameProblem } from '../../../git/refs/names.ts'
import { createRepository } from '../../../git/repository/repository.ts'
import { copyAsFirstCommit } from '../../../git/repository/template.ts'
import { scopeKey } from '../../../projections/models/labels/labels.fold.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { earlierResult } from '../../execution/idempotency.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { reserveSpace } from '../../execution/reserve-space.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { moveRefs } from '../../git/change-refs.ts'
import { recordRefs } from '../../git/record-refs.ts'
import { currentVisibility } from '../../organizations/current-visibility.ts'
import { signatureOf } from '../../users/accounts/signature.ts'
import { watchNew } from '../follows/change.ts'
import { withOwnerVisibility } from '../ownership/owner-visibility.ts'
import { decideCreate } from '../repository.decider.ts'
import { requireRepositoryName } from '../repository-name.ts'
import {
  claimRepositoryName,
  onlyCreator,
  organizationToCreateIn,
  repositoryNow,
  requireOwnerStays,
} from './create.ts'
import { addLabels } from './first-content.ts'

const Flag = Type.Optional(Type.Boolean())

const GenerateRepoOption = Type.Object(
  {
    owner: Type.String({ minLength: 1 }),
    name: Type.String(),
    description: Type.Optional(Type.String({ maxLength: 2048 })),
    default_branch: Type.Optional(Type.String()),
    private: Flag,
    git_content: Flag,
    topics: Flag,
    labels: Flag,
    protected_branch: Flag,
    git_hooks: Type.Optional(Type.Boolean({ description: 'Ignored: repositories have none here' })),
    avatar: Type.Optional(Type.Boolean({ description: 'Ignored: repositories have none here' })),
    webhooks: Type.Optional(Type.Boolean({ description: 'Only false is supported' })),
  },
  { title: 'GenerateRepoOption' },
)
type Wanted = Static<typeof GenerateRepoOption>

/** Maximum number of copied labels. */
const MAX_LABELS = 500

interface Generation {
  template: RepositoryDocument
  owner: AccountDocument
  creator: AccountDocument
  name: string
  defaultBranch: string
  wanted: Wanted
}

/** @throws Refused (unprocessable) unless the request can be fulfilled */
function requireGeneratable({ template }: RepositoryDocument, wanted: Wanted): void {
  if (!template) throw new Refused(refuse.unprocessable('the repository is not a template'))
  // Refuse instead of ignoring, since the client would rely on it.
  if (wanted.webhooks) throw new Refused(refuse.unprocessable('webhooks: is not supported'))
  const { git_content, topics, labels: withLabels, protected_branch, git_hooks, avatar } = wanted
  if (![git_content, topics, withLabels, protected_branch, git_hooks, avatar].some(Boolean)) {
    throw new Refused(refuse.unprocessable('must select at least one template item'))
  }
}

/** Returns the future owner, if the requester may create repositories there. @throws Refused */
async function ownerFor(
  services: Services,
  request: FastifyRequest,
  login: string,
): Promise<AccountDocument> {
  const requester = signedIn(request)
  if (login.toLowerCase() === requester.loginKey) return requester
  const account = await accountNamed(services, login)
  if (!canSee(account, requester)) throw notFoundIn(services.views.accounts, 'user not found')
  if (account.kind === 'organization') return organizationToCreateIn(services, request, login)
  if (requester.siteAdmin) return account
  throw new Refused(refuse.forbidden('only site admins generate repositories for other users'))
}

/**
 * Creates the repository. Resolves to its id. The order is number, claim, objects, events. A crash leaves an empty
 * repository or nothing; a retry continues.
 */
async function generate(
  services: Services,
  context: CommandContext,
  generation: Generation,
): Promise<number> {
  const { template, owner, creator, name, defaultBranch, wanted } = generation
  const repoId = await takeNumber(services, context, idsStream('repository'))
  const dir = gitDirOf(services, repoId)
  const status = (await repositories.ifDone(services, context, repoId, 'create'))?.status
  if (status === 'deleted') return repoId
  const copied = wanted.git_content === true && !template.empty
  const bytes = copied ? ((await services.diskUsage.get(template.id))?.gitBytes ?? 0) : 0
  const reservation = await reserveSpace(services, { owner, repoId, bytes })
  try {
    if (status === undefined) {
      const key = claimKeys.repository(owner.id, name)
      await claimRepositoryName(services, context, key, repositoryStream(repoId))
      await createRepository(dir, { defaultBranch })
      await withOwnerVisibility(services, context, owner, repoId, () =>
        repositories.change(services, context, repoId, 'create', async (state) =>
          decideCreate(state, {
            repoId,
            owner: { id: owner.id, login: owner.login, kind: owner.kind },
            ownerVisibility: await currentVisibility(services, owner),
            settings: {
              name,
              description: wanted.description ?? '',
              website: '',
              private: wanted.private ?? false,
              defaultBranch,
            },
            creator: onlyCreator(creator, owner),
            topics: wanted.topics ? template.topics : [],
            protections: wanted.protected_branch ? template.protections : [],
          }),
        ),
      )
    }
    await requireOwnerStays(services, context, owner, repoId)
    await watchNew(services, context, { repoId, owner, creator })
    if (copied) await copyContent(services, context, repoId, generation)
    if (wanted.labels) await copyLabels(services, context, template.id, repoId)
  } catch (error) {
    reservation.end('dropped')
    throw error
  }
  reservation.end('written')
  return repoId
}

/** Commits the files of the template's default branch. */
async function copyContent(
  services: Services,
  context: CommandContext,
  repoId: number,
  { template, creator, defaultBranch }: Generation,
): Promise<void> {
  const signature = signatureOf(services, creator, context.at)
  await moveRefs(services, repoId, async (since) => {
    // The branch of the first attempt may be deleted since.
    if (await earlierResult(services, context, gitStream(repoId), 'auto-init')) return
    const made = await copyAsFirstCommit(gitDirOf(services, template.id), gitDirOf(services, repoId), {
      from: template.defaultBranch,
      branch: defaultBranch,
      message: 'Initial commit\n',
      author: signature,
      committer: signature,
    })
    // The branch has its first commit already, by an earlier attempt or a push.
    if (made?.outcome !== 'moved') return
    const ref = `refs/heads/${defaultBranch}`
    await recordRefs(services, context, repoId, 'auto-init', [{ ref, from: null, to: made.sha }], since)
  })
}

async function copyLabels(services: Services, context: CommandContext, fromId: number, repoId: number) {
  const found = await services.views.labels.find(
    { scopeKey: scopeKey({ kind: 'repository', repoId: fromId }) },
    { sort: [['id', 1]], limit: MAX_LABELS },
  )
  const copies = found.map(({ id, name, color, description, exclusive, archived }) => ({
    step: `${id}`,
    settings: { name, color, description, exclusive, archived },
  }))
  await addLabels(services, context, repoId, copies)
}

export const generateRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/generate',
    route('repository', {
      params: RepositoryParams,
      body: GenerateRepoOption,
      response: { 201: RepositoryWire },
    }),
    async (request, reply) => {
      const { repository: template } = await onRepository(services, request, 'read')
      const creator = signedIn(request)
      const wanted = request.body
      requireGeneratable(template, wanted)
      const name = requireRepositoryName(wanted.name)
      const defaultBranch = wanted.default_branch || template.defaultBranch
      const problem = newBranchNameProblem(defaultBranch)
      if (problem !== undefined) throw new Refused(refuse.unprocessable(`default_branch: ${problem}`))
      const owner = await ownerFor(services, request, wanted.owner)
      const context = commandContext(request)
      const id = await generate(services, context, {
        template,
        owner,
        creator,
        name,
        defaultBranch,
        wanted,
      })
      await settled(services, context, reply)
      const made = await repositoryNow(services, id)
      return reply.code(201).send(await repositoryPage(services, made, accessTo(made, creator), creator))
    },
  )
}
