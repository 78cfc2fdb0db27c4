/** LFS locks: `/{owner}/{repo}.git/info/lfs/locks`. They are advisory; pushes ignore them. */
import { posix } from 'node:path'
import { Type } from 'typebox'
import {
  LFS_JSON,
  LfsLockBody,
  LfsLocksWire,
  LfsLockTakenWire,
  LfsLockWire,
  LfsParams,
  LfsUnlockBody,
  LfsVerifiedLocksWire,
  LfsVerifyLocksBody,
  lfsLockWires,
} from '../../api/lfs/lfs.ts'
import { signedIn } from '../../auth/requester.ts'
import type { Routes } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { LfsLockDocument } from '../../projections/models/lfs/lfs-locks.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { lfsLocks } from '../execution/aggregates.ts'
import { executedAt } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { gitRepository } from '../git/git-repository.ts'
import { LFS_TAGS, lfsSchema, parseLfsBodies } from './json-routes.ts'
import { decideLock, decideUnlock } from './lock.decider.ts'

const LocksQuery = Type.Object({
  path: OptionalText('Only the lock of this path'),
  id: OptionalText('Only the lock with this id'),
  cursor: OptionalText('`next_cursor` of the previous page'),
  limit: OptionalText('Page size: default 30, maximum 50, unless configured'),
  refspec: OptionalText('Ignored: a lock holds for all refs'),
})
const UnlockParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

/** Maximum number of locks on a page. git-lfs reads all pages before each push. */
const MAX_LOCKS = 100

/** Returns the path relative to the root of the repository. @throws Refused */
function requirePath(given: string): string {
  // A lone surrogate has no UTF-8 form, so two such paths would be the same.
  if (given.includes('\0') || !given.isWellFormed()) {
    throw new Refused(refuse.unprocessable('path: has an invalid character'))
  }
  const path = posix.join('/', given).slice(1)
  if (path === '' || path.endsWith('/')) throw new Refused(refuse.unprocessable('path: must name a file'))
  return path
}

export const lfsLockRoutes: Routes = (services) => {
  const { views } = services

  /** Returns a page of locks by id, and the cursor of the next one. */
  async function pageOf(
    filter: Filter<LfsLockDocument>,
    { cursor, limit }: { cursor?: string | null; limit?: number | null },
  ) {
    const size = Math.min(Math.max(limit || MAX_LOCKS, 1), MAX_LOCKS)
    const after = cursor ? pathNumber(cursor) : 0
    if (after === undefined) throw new Refused(refuse.unprocessable('cursor: is not a cursor of a page'))
    const options = { sort: [['id', 1]], limit: size + 1 } as const
    const found = await views.lfsLocks.find({ ...filter, id: { $gt: after } }, options)
    const locks = found.slice(0, size)
    const last = locks.at(-1)
    return { locks, ...(found.length > size && last && { next_cursor: `${last.id}` }) }
  }

  async function wireOf(lock: LfsLockDocument) {
    const [wire] = await lfsLockWires(services, [lock])
    if (wire === undefined) throw new Error('a lock has no wire form')
    return wire
  }

  return async (app) => {
    parseLfsBodies(app)

    app.get(
      '/:owner/:repo/info/lfs/locks',
      {
        schema: {
          tags: LFS_TAGS,
          produces: [LFS_JSON],
          params: LfsParams,
          querystring: LocksQuery,
          response: { 200: LfsLocksWire },
        },
      },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'read')
        const { path: asked, id, cursor = '', limit = '' } = request.query
        const path = asked && requirePath(asked)
        const repoId = repository.id
        reply.type(LFS_JSON)
        if (id) {
          const lock = await views.lfsLocks.get(`${pathNumber(id)}`)
          const isShown = lock?.repoId === repoId && (!path || lock.path === path)
          return { locks: isShown ? [await wireOf(lock)] : [] }
        }
        const size = /^\d{1,6}$/.test(limit) ? Number(limit) : null
        const { locks, ...rest } = await pageOf({ repoId, ...(path && { path }) }, { cursor, limit: size })
        return { locks: await lfsLockWires(services, locks), ...rest }
      },
    )

    app.post(
      '/:owner/:repo/info/lfs/locks',
      {
        schema: lfsSchema({
          body: LfsLockBody,
          response: { 201: LfsLockWire, 409: LfsLockTakenWire },
        }),
      },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'write')
        const { id: ownerId, login } = signedIn(request)
        const path = requirePath(request.body.path)
        const repoId = repository.id
        const context = commandContext(request)
        const id = await takeNumber(services, context, idsStream('lfs-lock'))
        const lock = { id, path, owner: { id: ownerId, login }, ref: request.body.ref?.name ?? null }
        reply.type(LFS_JSON)
        try {
          const { held } = await lfsLocks.change(services, context, { repoId, path }, 'lock', (state) =>
            decideLock(state, repoId, lock),
          )
          await settled(services, context, reply)
          // A retried request may find another user's lock.
          if (held?.id !== id) throw new Refused(refuse.conflict('the lock has been released since'))
          return reply
            .code(201)
            .send({ lock: await wireOf({ ...held, repoId, lockedAt: executedAt(context) }) })
        } catch (error) {
          if (!(error instanceof Refused) || error.refusal.code !== 'already_locked') throw error
          const { held } = await lfsLocks.load(services, { repoId, path })
          if (held === null) throw error
          const known = await views.lfsLocks.get(`${held.id}`)
          const lock = await wireOf(known ?? { ...held, repoId, lockedAt: context.at })
          return reply.code(409).send({ lock, message: error.refusal.message })
        }
      },
    )

    app.post(
      '/:owner/:repo/info/lfs/locks/verify',
      {
        config: { scopeLevel: 'read' },
        schema: lfsSchema({
          body: LfsVerifyLocksBody,
          response: { 200: LfsVerifiedLocksWire },
        }),
      },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'write')
        const { id } = signedIn(request)
        const { locks, ...rest } = await pageOf({ repoId: repository.id }, request.body)
        const wires = await lfsLockWires(services, locks)
        reply.type(LFS_JSON)
        return {
          ours: wires.filter((_, i) => locks[i]?.owner.id === id),
          theirs: wires.filter((_, i) => locks[i]?.owner.id !== id),
          ...rest,
        }
      },
    )

    app.post(
      '/:owner/:repo/info/lfs/locks/:id/unlock',
      {
        schema: lfsSchema({
          params: UnlockParams,
          body: LfsUnlockBody,
          response: { 200: LfsLockWire },
        }),
      },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'write')
        const { id, login } = signedIn(request)
        const lock = await views.lfsLocks.get(`${pathNumber(request.params.id)}`)
        if (lock === undefined || lock.repoId !== repository.id) {
          throw notFoundIn(views.lfsLocks, 'lock not found')
        }
        const wire = await wireOf(lock)
        const context = commandContext(request)
        const { repoId, path } = lock
        const unlock = { lockId: lock.id, by: { id, login }, force: request.body.force === true }
        await lfsLocks.change(services, context, { repoId, path }, 'unlock', (state) =>
          decideUnlock(state, repoId, unlock),
        )
        await settled(services, context, reply)
        return reply.type(LFS_JSON).send({ lock: wire })
      },
    )
  }
}
