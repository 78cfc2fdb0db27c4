/** Serves git's smart HTTP protocol, `/{owner}/{repo}.git`, with the API's sign-in and permissions. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { archivedRefusal } from '../../access/archived.ts'
import { awaitPermissions } from '../../access/await-permissions.ts'
import { mayPush, protectionOf } from '../../access/protection-rules.ts'
import type { RepositoryAccess } from '../../access/repository-access.ts'
import { mayControlTag } from '../../access/tag-protection-rules.ts'
import { memberOf } from '../../access/team-membership.ts'
import { clientOf, signedIn } from '../../auth/requester.ts'
import type { Routes } from '../../auth/routes.ts'
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { isShared } from '../../config/config.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Permission } from '../../events/catalog/organizations.ts'
import { requireMember } from '../../events/nodes/nodes.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import { decodeBody, paceBody } from '../../git/http/request-body.ts'
import { advertiseRefs, type GitService, isGitService, uploadPack } from '../../git/http/smart-http.ts'
import { receivePack } from '../../git/push/receive-pack.ts'
import { isHiddenRef, isServersRef } from '../../git/refs/names.ts'
import type { RefChange } from '../../git/refs/refs.ts'
import { sendGitProblem } from '../../http/answers/errors.ts'
import { baseFor } from '../../http/requests/base-path.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { requestContext } from '../execution/request-context.ts'
import { reserveSpace, type SpaceRequest } from '../execution/reserve-space.ts'
import { recordAndMoveHeads } from '../pull-requests/branches/move-heads.ts'
import { pushableRefs } from '../pull-requests/maintainer-edits.ts'
import { gitRepository } from './git-repository.ts'
import { withRefLock } from './ref-lock.ts'

const GitParams = Type.Object({ owner: Type.String(), repo: Type.String() })

const PERMISSION = { 'git-upload-pack': 'read', 'git-receive-pack': 'write' } as const satisfies Record<
  GitService,
  Permission
>

/** The user who pushes, and the repository. */
interface Pusher extends RepositoryAccess {
  requester: AccountDocument
}

const TAGS = 'refs/tags/'

/** The rules for a push. */
interface PushRules {
  /** Reasons to reject refs that git would accept, by full name. */
  problems: Map<string, string>
  /** Full names of refs whose new commits must be signed. */
  requireSigned: string[]
  /** Full names of protected refs: they accept only fast-forwards. */
  forwardOnly: string[]
}

/** Fills in the rules of a push before git reads it. */
async function checkPush(
  services: Services,
  pusher: Pusher,
  commands: readonly RefChange[],
  rules: PushRules,
): Promise<void> {
  const { repository, requester, access } = pusher
  const refs = commands.map(({ ref }) => ref)
  if (repository.archived) {
    for (const ref of refs) rules.problems.set(ref, archivedRefusal.message)
    return
  }
  const pushable = atLeast(access, 'write')
    ? undefined
    : await pushableRefs(services, repository, requester, refs)
  const tags = refs.some((ref) => ref.startsWith(TAGS))
    ? await services.views.tagProtections.get(`${repository.id}`)
    : undefined
  const member = memberOf(repository, requester)
  await forEachInSlices(commands, (change) => {
    if (change.ref.startsWith(TAGS)) {
      const mayControl = mayControlTag(tags?.protections ?? [], change.ref.slice(TAGS.length), member)
      if (!mayControl) rules.problems.set(change.ref, 'the tag is protected: you may not push to it')
    }
    if (pushable === undefined) checkChange(pusher, change, rules)
    else if (change.to !== null && pushable.has(change.ref)) {
      checkChange({ ...pusher, access: 'write' }, change, rules)
    } else rules.problems.set(change.ref, 'you may not push to it')
  })
}

function checkChange(
  { repository, requester, access }: Pusher,
  { ref, to }: RefChange,
  { problems, requireSigned, forwardOnly }: PushRules,
): void {
  if (isHiddenRef(ref)) problems.set(ref, 'only the server has refs with this name')
  else if (isServersRef(ref)) problems.set(ref, 'only the server moves the refs of pull requests')
  // Tags, notes and other refs.
  if (!ref.startsWith('refs/heads/')) return
  const branch = ref.slice('refs/heads/'.length)
  const protection = protectionOf(repository.protections, branch)
  if (to === null && branch === repository.defaultBranch) {
    problems.set(ref, 'the default branch cannot be deleted')
  } else if (protection !== undefined && to === null) {
    problems.set(ref, 'a protected branch cannot be deleted')
  } else if (protection !== undefined && !mayPush(protection, memberOf(repository, requester), access)) {
    problems.set(ref, 'the branch is protected: you may not push to it')
  } else if (protection !== undefined) {
    forwardOnly.push(ref)
    if (protection.requireSigned) requireSigned.push(ref)
  }
}

/** Reserves space for a push. Without space each of its refs gets a reason. */
async function admitPush(services: Services, commands: readonly RefChange[], space: SpaceRequest) {
  try {
    const reservation = await reserveSpace(services, space)
    return {
      reasons: new Map<string, string>(),
      end: (isDone: boolean) => reservation.end(isDone ? 'written' : 'dropped'),
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    const { message } = error.refusal
    return { reasons: new Map(commands.map(({ ref }) => [ref, message])), end() {} }
  }
}

function except(refs: readonly string[], checked: readonly string[]): string[] {
  const known = new Set(checked)
  return refs.filter((ref) => !known.has(ref))
}

/**
 * Checks a push again when git has its objects, before refs move: the pack may have taken hours. `before`: the rules by
 * which git has checked the objects.
 */
async function checkPushAgain(
  services: Services,
  request: FastifyRequest,
  repoId: number,
  commands: readonly RefChange[],
  before: PushRules,
): Promise<ReadonlyMap<string, string>> {
  const rules: PushRules = { problems: new Map(), requireSigned: [], forwardOnly: [] }
  try {
    await awaitPermissions(services)
    const requester = await request.signInAgain()
    if (requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
    const repository = await services.views.repositories.get(`${repoId}`)
    const access = repository === undefined ? 'none' : accessTo(repository, requester)
    if (repository === undefined || !atLeast(access, 'read')) {
      throw new Refused(refuse.notFound('repository not found'))
    }
    await checkPush(services, { repository, access, requester }, commands, rules)
    // A node that was suspended may have lost its lock, and then its decision is outdated.
    requireMember(services.nodes)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return new Map(commands.map(({ ref }) => [ref, error.refusal.message]))
  }
  const unchecked = [
    ...except(rules.forwardOnly, before.forwardOnly),
    ...except(rules.requireSigned, before.requireSigned),
  ]
  for (const ref of unchecked) rules.problems.set(ref, 'the branch was protected during the push; push again')
  return rules.problems
}

export const gitHttpRoutes: Routes = (services) => {
  const protocolOf = (request: FastifyRequest) => {
    const protocol = request.headers['git-protocol']
    return typeof protocol === 'string' ? protocol : undefined
  }

  const { reads, pushes, pace } = services.gitLimits
  /** Returns the decoded body, which takes a slot of the bodies being read. @throws SlotsFull */
  async function bodyOf(request: FastifyRequest, reply: FastifyReply, { placeForBody }: typeof reads) {
    const release = await placeForBody(clientOf(request))
    reply.raw.once('close', release)
    const body = decodeBody(paceBody(request.raw, pace), request.headers['content-encoding'])
    return body.once('close', release)
  }

  return async (app) => {
    const hidden = { schema: { params: GitParams, hide: true } }
    app.setErrorHandler((error: Error, request, reply) =>
      sendGitProblem(error, request, reply, baseFor(request.host, services.config.publicUrl)),
    )
    // git reads the body at its own pace. Other content types give 415.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser(
      ['application/x-git-upload-pack-request', 'application/x-git-receive-pack-request'],
      (_request, payload, done) => done(null, payload),
    )

    app.get('/:owner/:repo/info/refs', hidden, async (request, reply) => {
      const service =
        typeof request.query === 'object' && request.query !== null && 'service' in request.query
          ? request.query.service
          : undefined
      if (!isGitService(service))
        throw new Refused(refuse.forbidden('only the smart HTTP protocol is supported'))
      const { repository } = await gitRepository(services, request, request.params, PERMISSION[service])
      const signal = disconnectSignal(reply)
      const dir = gitDirOf(services, repository.id)
      // Readers must not delay the first request of a push.
      const share = (service === 'git-upload-pack' ? reads : pushes).shareOf(clientOf(request))
      const answer = await advertiseRefs(dir, service, { protocol: protocolOf(request), signal, share })
      return reply
        .type(`application/x-${service}-advertisement`)
        .header('Cache-Control', 'no-cache, max-age=0, must-revalidate')
        .send(answer)
    })

    app.post(
      '/:owner/:repo/git-upload-pack',
      { ...hidden, config: { scopeLevel: 'read', limitsBody: true } },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'read')
        const options = {
          protocol: protocolOf(request),
          signal: disconnectSignal(reply),
          share: reads.shareOf(clientOf(request)),
        }
        const answer = await uploadPack(
          gitDirOf(services, repository.id),
          await bodyOf(request, reply, reads),
          options,
        )
        return reply
          .type('application/x-git-upload-pack-result')
          .header('Cache-Control', 'no-cache')
          .send(answer)
      },
    )

    app.post(
      '/:owner/:repo/git-receive-pack',
      { ...hidden, config: { limitsBody: true } },
      async (request, reply) => {
        const access = await gitRepository(services, request, request.params, 'write')
        const { repository } = access
        const pusher = { ...access, requester: signedIn(request) }
        const context = requestContext(request)
        const { maxPushBytes, maxPushRefs, maxObjectBytes, signingKey, allowedSigners } = services.config
        const rules: PushRules = { problems: new Map(), requireSigned: [], forwardOnly: [] }
        const { id: repoId, ownerId, ownerLogin } = repository
        const space = { owner: { id: ownerId, login: ownerLogin }, repoId }
        let since: ExpectedRevision = 'any'
        const answer = await receivePack(
          gitDirOf(services, repository.id),
          await bodyOf(request, reply, pushes),
          {
            ...rules,
            signingKey,
            allowedSigners,
            protocol: protocolOf(request),
            signal: disconnectSignal(reply),
            share: pushes.shareOf(clientOf(request)),
            journal: services.pushJournal,
            isShared: isShared(services.config),
            runExclusive: (work) =>
              withRefLock(services, repository.id, (revision) => {
                since = revision
                return work()
              }),
            key: `${repository.id}`,
            maxBytes: Number.isFinite(maxPushBytes) ? maxPushBytes : undefined,
            maxRefs: maxPushRefs,
            maxObjectBytes,
            check: async (commands) => {
              await checkPush(services, pusher, commands, rules)
              if (rules.problems.size > 0 || commands.every(({ to }) => to === null)) return rules.problems
              const announced = Number(request.headers['content-length'] ?? 0)
              const { reasons, end } = await admitPush(services, commands, { ...space, bytes: announced })
              end(false)
              return reasons
            },
            admit: (commands, bytes) => admitPush(services, commands, { ...space, bytes }),
            checkAgain: (commands) => checkPushAgain(services, request, repository.id, commands, rules),
            record: (updates, options) =>
              recordAndMoveHeads(services, context, repository.id, 'push', updates, since, options),
          },
        )
        return reply
          .type('application/x-git-receive-pack-result')
          .header('Cache-Control', 'no-cache')
          .send(answer)
      },
    )
  }
}
