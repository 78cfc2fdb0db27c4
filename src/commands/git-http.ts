/** Git over HTTP at `/{owner}/{repo}.git`: the same credentials and rights as the API. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Permission } from '../events/domain-events.ts'
import { receivePack } from '../git/receive-pack.ts'
import type { RefChange } from '../git/refs.ts'
import { advertiseRefs, decodeBody, type GitService, isGitService, uploadPack } from '../git/smart-http.ts'
import { requireScope } from '../http/auth.ts'
import { repositoryFor, requestContext } from '../http/requests.ts'
import { moveHeads } from '../processes/pull-heads.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { gitDirOf, type Services } from '../services.ts'
import type { CommandContext } from './execute.ts'
import { recordRefs } from './refs-updated.ts'
import { Refused, refuse } from './refusal.ts'

const GitParams = Type.Object({ owner: Type.String(), repo: Type.String() })
type GitPath = { owner: string; repo: string }

const NEEDED: Record<GitService, Permission> = { 'git-upload-pack': 'read', 'git-receive-pack': 'write' }

/**
 * The repository, for who may use it so. An anonymous client is asked for credentials whether or not there
 * is a repository, since git sends them only then; a signed-in one that may not read it gets 404.
 */
async function gitRepository(
  services: Services,
  request: FastifyRequest,
  { owner, repo }: GitPath,
  service: GitService,
): Promise<RepositoryDocument> {
  const needed = NEEDED[service]
  requireScope(request, ['repository'], needed === 'read' ? 'read' : 'write')
  try {
    const path = { owner, repo: repo.replace(/\.git$/, '') }
    return (await repositoryFor(services, request, path, needed)).repository
  } catch (error) {
    const missing = error instanceof Refused && error.refusal.refused === 'notFound'
    if (missing && request.requester === null) throw new Refused(refuse.unauthenticated('sign in first'))
    throw error
  }
}

/** Why a ref may not be pushed: what git itself would let through. */
function pushProblems(repository: RepositoryDocument, commands: readonly RefChange[]): Map<string, string> {
  const problems = new Map<string, string>()
  for (const { ref, to } of commands) {
    if (!ref.startsWith('refs/heads/') && !ref.startsWith('refs/tags/')) {
      problems.set(ref, 'only branches and tags can be pushed')
    } else if (to === null && ref === `refs/heads/${repository.defaultBranch}`) {
      problems.set(ref, 'the default branch can not be deleted')
    }
  }
  return problems
}

/** Before the client is told: events, read models, and the heads of pull requests from the branches. */
async function recordPush(
  services: Services,
  context: CommandContext,
  repoId: number,
  updates: readonly RefChange[],
): Promise<void> {
  const { projector, config } = services
  await recordRefs(services, context, repoId, 'push', updates)
  // The push is recorded: a projection that lags does not make it fail, and the process catches up.
  if (!(await projector.waitFor(context.written, config.projectionWaitMs))) return
  const refs = updates.map(({ ref }) => ref)
  await moveHeads(services, context, repoId, refs).catch((error: unknown) =>
    services.log.warn({ err: error, repoId }, 'the heads of pull requests are left to the process'),
  )
  await projector.waitFor(context.written, config.projectionWaitMs)
}

export function gitHttpRoutes(services: Services): FastifyPluginAsyncTypebox {
  const protocolOf = (request: FastifyRequest) => {
    const protocol = request.headers['git-protocol']
    return typeof protocol === 'string' ? protocol : undefined
  }

  /** Ends git when the client goes away before its answer is complete. */
  function clientGone(reply: FastifyReply): AbortSignal {
    const gone = new AbortController()
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) gone.abort()
    })
    return gone.signal
  }

  return async (app) => {
    const hidden = { schema: { params: GitParams, hide: true } }
    // git decides by itself how much of a body it reads and when; any other kind of body gives 415.
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
        throw new Refused(refuse.forbidden('only the smart HTTP protocol is spoken here'))
      const repository = await gitRepository(services, request, request.params, service)
      const signal = clientGone(reply)
      const dir = gitDirOf(services, repository.id)
      const answer = await advertiseRefs(dir, service, { protocol: protocolOf(request), signal })
      return reply
        .type(`application/x-${service}-advertisement`)
        .header('Cache-Control', 'no-cache, max-age=0, must-revalidate')
        .send(answer)
    })

    app.post(
      '/:owner/:repo/git-upload-pack',
      { ...hidden, config: { scopeLevel: 'read' } },
      async (request, reply) => {
        const repository = await gitRepository(services, request, request.params, 'git-upload-pack')
        const body = decodeBody(request.raw, request.headers['content-encoding'])
        const signal = clientGone(reply)
        const options = { protocol: protocolOf(request), signal }
        const answer = await uploadPack(gitDirOf(services, repository.id), body, options)
        return reply
          .type('application/x-git-upload-pack-result')
          .header('Cache-Control', 'no-cache')
          .send(answer)
      },
    )

    app.post('/:owner/:repo/git-receive-pack', hidden, async (request, reply) => {
      const repository = await gitRepository(services, request, request.params, 'git-receive-pack')
      const context = requestContext(request)
      const { maxPushBytes } = services.config
      const answer = await receivePack(
        gitDirOf(services, repository.id),
        decodeBody(request.raw, request.headers['content-encoding']),
        {
          protocol: protocolOf(request),
          signal: clientGone(reply),
          journal: services.pushJournal,
          key: `${repository.id}`,
          maxBytes: Number.isFinite(maxPushBytes) ? maxPushBytes : undefined,
          check: async (commands) => pushProblems(repository, commands),
          record: (updates) => recordPush(services, context, repository.id, updates),
        },
      )
      return reply
        .type('application/x-git-receive-pack-result')
        .header('Cache-Control', 'no-cache')
        .send(answer)
    })
  }
}
