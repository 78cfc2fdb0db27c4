/** Forks a repository: `POST /repos/{owner}/{repo}/forks`. */
import { Type } from 'typebox'
import { accessTo } from '../../../access/access.ts'
import { onRepository } from '../../../access/repository-access.ts'
import { Nullable } from '../../../api/nullable.ts'
import { RepositoryParams, RepositoryWire, repositoryPage } from '../../../api/repositories/repositories.ts'
import { signedIn } from '../../../auth/requester.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { coded, Refused, refuse } from '../../../errors/refusal.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { claimKeys, gitStream, idsStream, repositoryStream } from '../../../events/streams.ts'
import { listRefs } from '../../../git/refs/refs.ts'
import { forkRepository } from '../../../git/repository/fork.ts'
import { deleteRepository, setDefaultBranch } from '../../../git/repository/repository.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { repositories } from '../../execution/aggregates.ts'
import { releaseClaim, takeClaim } from '../../execution/claims.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { load } from '../../execution/load.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { reserveSpace } from '../../execution/reserve-space.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { moveRefs } from '../../git/change-refs.ts'
import { recordRefs } from '../../git/record-refs.ts'
import { inheritLfsObjects } from '../../lfs/inherit-objects.ts'
import { currentVisibility } from '../../organizations/current-visibility.ts'
import { watchNew } from '../follows/change.ts'
import { hideFork, isHidden, withOwnerVisibility } from '../ownership/owner-visibility.ts'
import { decideCreate, repositoryDecider } from '../repository.decider.ts'
import { requireRepositoryName } from '../repository-name.ts'
import {
  claimRepositoryName,
  onlyCreator,
  organizationToCreateIn,
  repositoryNow,
  requireOwnerStays,
} from './create.ts'

const CreateForkOption = Type.Object(
  {
    name: Type.Optional(Type.String()),
    organization: Type.Optional(Type.String()),
  },
  { title: 'CreateForkOption' },
)

interface Fork {
  base: RepositoryDocument
  owner: AccountDocument
  creator: AccountDocument
  name: string
}

/**
 * Creates a fork. Resolves to its id. The order is claims, objects, event, refs: after a crash the claims can be taken
 * over, and recovery records the refs.
 */
async function createFork(services: Services, context: CommandContext, fork: Fork): Promise<number> {
  const repoId = await takeNumber(services, context, idsStream('repository'))
  // Under a lock on all nodes: of two copies of a request, one could release claims that the other needs.
  await services.runExclusive(`fork ${repoId}`, async () => {
    // A retried request may find its fork created, or deleted.
    const status = (await repositories.ifDone(services, context, repoId, 'create'))?.status
    if (status === undefined) {
      // Charged like the parent although they share files, since either may be deleted.
      const bytes = (await services.diskUsage.get(fork.base.id))?.gitBytes ?? 0
      const reservation = await reserveSpace(services, { owner: fork.owner, repoId, bytes })
      try {
        await prepareFork(services, context, repoId, fork)
      } catch (error) {
        reservation.end('dropped')
        throw error
      }
      reservation.end('written')
    }
    if (status === 'deleted') return
    await recordFork(services, context, repoId, fork)
    await requireOwnerStays(services, context, fork.owner, repoId)
    await watchNew(services, context, { repoId, ...fork })
  })
  return repoId
}

/** Claims the owner's only fork of a repository. @throws Refused (conflict) when the owner has one */
export async function claimFork(
  services: Services,
  context: CommandContext,
  { baseId, owner }: { baseId: number; owner: AccountRef },
  holder: string,
): Promise<void> {
  const claim = await takeClaim(services, context, {
    key: claimKeys.fork(baseId, owner.id),
    holder,
    stillHolds: async (other) => {
      const { state } = await load(services, other, repositoryDecider)
      return state.status === 'active' && state.parentId === baseId && state.owner.id === owner.id
    },
  })
  if (!claim.taken)
    throw new Refused(
      coded('fork_exists', refuse.conflict(`${owner.login} has a fork of this repository already`)),
    )
}

/** Claims the fork and its name, and copies the objects. Releases the claims on failure. */
async function prepareFork(
  services: Services,
  context: CommandContext,
  repoId: number,
  { base, owner, name }: Fork,
): Promise<void> {
  const stream = repositoryStream(repoId)
  const forkKey = claimKeys.fork(base.id, owner.id)
  const nameKey = claimKeys.repository(owner.id, name)
  await claimFork(services, context, { baseId: base.id, owner }, stream)
  try {
    await claimRepositoryName(services, context, nameKey, stream)
    const dir = gitDirOf(services, repoId)
    await forkRepository(gitDirOf(services, base.id), dir)
    // The default branch comes from the log, since git's copy may be older.
    await setDefaultBranch(dir, base.defaultBranch)
  } catch (error) {
    // The fork has no event yet, so its claims are unused. A claim that is not released can be taken over.
    await Promise.allSettled([forkKey, nameKey].map((key) => releaseClaim(services, context, key, stream)))
    throw error
  }
}

/** Records the fork and its branches, while pushes wait. */
async function recordFork(
  services: Services,
  context: CommandContext,
  repoId: number,
  { base, owner, creator, name }: Fork,
): Promise<void> {
  const dir = gitDirOf(services, repoId)
  const { id, ownerId, ownerLogin, description, defaultBranch } = base
  await moveRefs(services, repoId, async (since) => {
    try {
      await withOwnerVisibility(services, context, owner, repoId, () =>
        repositories.change(services, context, repoId, 'create', async (state) =>
          decideCreate(state, {
            repoId,
            owner: { id: owner.id, login: owner.login, kind: owner.kind },
            parent: { repoId: id, owner: { id: ownerId, login: ownerLogin }, name: base.name },
            ownerVisibility: await currentVisibility(services, owner),
            creator: onlyCreator(creator, owner),
            settings: {
              name,
              description,
              website: '',
              private: await isHidden(services, id),
              defaultBranch,
            },
          }),
        ),
      )
      // The base may have been hidden meanwhile. After a crash the process `owner_visibility` handles it.
      await hideFork(services, context, { baseId: id, repoId })
    } catch (error) {
      // The copy took so long that another request took the claims over: this fork cannot be created.
      const stream = repositoryStream(repoId)
      if (error instanceof Refused && (await load(services, stream, repositoryDecider)).abandoned) {
        await deleteRepository(dir)
      }
      throw error
    }
    if (await hasEvents(services, gitStream(repoId))) return
    const refs = (await listRefs(dir)).map(({ ref, sha }) => ({ ref, from: null, to: sha }))
    await recordRefs(services, context, repoId, 'fork', refs, since)
  })
  // After a crash the process `lfs_objects` continues.
  await inheritLfsObjects(services, context, { from: id, to: repoId })
}

async function hasEvents(services: Services, stream: string): Promise<boolean> {
  for await (const _ of services.events.readStream(stream, { maxCount: 1 })) return true
  return false
}

export const forkRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/forks',
    route('repository', {
      params: RepositoryParams,
      body: Nullable(CreateForkOption),
      response: { 202: RepositoryWire },
    }),
    async (request, reply) => {
      const { repository: base } = await onRepository(services, request, 'read')
      const requester = signedIn(request)
      const { name: givenName, organization } = request.body ?? {}
      const name = requireRepositoryName(givenName ?? base.name)
      const owner =
        organization === undefined || organization === null
          ? requester
          : await organizationToCreateIn(services, request, organization)
      if (base.empty) throw new Refused(refuse.forbidden('an empty repository cannot be forked'))
      if (owner.id === base.ownerId) {
        throw new Refused(refuse.conflict(`${owner.login} owns the repository; a fork needs another owner`))
      }
      const context = commandContext(request)
      const repoId = await createFork(services, context, { base, owner, creator: requester, name })
      await settled(services, context, reply)
      const fork = await repositoryNow(services, repoId)
      return reply.code(202).send(await repositoryPage(services, fork, accessTo(fork, requester), requester))
    },
  )
}
