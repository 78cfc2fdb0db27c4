/** Changes files: `POST`, `PUT` and `DELETE /repos/{owner}/{repo}/contents/{path}`; many at once without the path. */

import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository, type RepositoryPath, type RepositoryRequest } from '../../access/repository-access.ts'
import { type Contents, FilesWire, FileWire, fileCommitWire } from '../../api/contents/contents.ts'
import { contentsIfThere, readingOf } from '../../api/contents/contents-at.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { nextSlice } from '../../concurrency/event-loop.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { base64In, readBase64Bodies } from '../../http/bodies/base64-bodies.ts'
import { hasValidBody } from '../../http/requests/deferred-validation.ts'
import { gitDirOf } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { commitOptions, contentsBodies, type RequestedChange, requestedChange } from './body.ts'
import { commitFiles, requireMayCommit } from './commit-files.ts'

const FileParams = Type.Object({ ...RepositoryParams.properties, '*': Type.String() })

/** Maximum size of the contents in an answer about many files, in bytes, as on the first page of a list. */
const MAX_SHOWN_BYTES = 4 * 1024 * 1024

const decode = (request: FastifyRequest) => (text: string) => base64In(request, text)

/** Bytes that are hashed in one tick of the event loop. */
const HASH_CHUNK_BYTES = 256 * 1024

/** Returns the identity of a body with an Idempotency-Key: the body, with hashes of its files. */
async function digestible(body: object, changes: readonly RequestedChange[]): Promise<unknown> {
  const files: object[] = []
  for (const { content, ...change } of changes) {
    const hash = createHash('sha256')
    let hashed = 0
    for (const part of content ?? []) {
      hash.update(part)
      hashed += part.length
      if (hashed < HASH_CHUNK_BYTES) continue
      hashed = 0
      await nextSlice()
    }
    files.push({ ...change, content: content && hash.digest('hex') })
  }
  return { ...body, content: null, files }
}

export const contentsRoutes: Routes = (services) => {
  const bodies = contentsBodies(services)

  /** Commits the changes. Resolves to the commit with its files: null for a deleted file. */
  async function change(
    request: FastifyRequest & RepositoryRequest,
    reply: FastifyReply,
    body: Omit<Static<typeof bodies.create>, 'content'>,
    wanted: () => RequestedChange[],
  ): Promise<Static<typeof FilesWire>> {
    const { repository } = await onRepository(services, request, 'read')
    const options = commitOptions(body, repository.defaultBranch)
    await requireMayCommit(services, repository.id, signedIn(request), options.newBranch)
    const changes = wanted()
    // Only an Idempotency-Key needs a digest. The placeholders of long contents differ in each attempt.
    const digested = request.headers['idempotency-key'] === undefined ? null : await digestible(body, changes)
    const context = commandContext(request, digested)
    const sha = await commitFiles(services, request, context, { repository, options, changes })
    await settled(services, context, reply)
    const facts = (await commitFacts(gitDirOf(services, repository.id), [sha])).get(sha)
    if (facts === undefined) throw new Error(`the new commit ${sha} is gone`)
    const publicUrl = services.publicUrl()
    const commit = { kind: 'branch', name: options.newBranch, sha } as const
    const reading = readingOf(services, request, reply)
    const files: (Contents | null)[] = []
    let bytes = 0
    for (const { path } of changes) {
      const shown = { content: bytes < MAX_SHOWN_BYTES, lastCommit: true }
      const file = await contentsIfThere(reading, { repository, publicUrl, commit }, path, shown)
      bytes += file?.size ?? 0
      files.push(file)
    }
    const isSigned = services.config.signingKey !== undefined
    return { files, ...fileCommitWire({ repository, publicUrl }, facts, isSigned) }
  }

  /** Commits a change of one file. */
  async function changeOne(...args: Parameters<typeof change>): Promise<Static<typeof FileWire>> {
    const { files, ...commit } = await change(...args)
    return { content: files[0] ?? null, ...commit }
  }

  /** Route options for bodies with files. */
  const withFiles = { bodyLimit: services.config.maxFileBodyBytes }

  return async (app) => {
    // The permission depends on the branch in the body.
    app.addHook<{ Params: RepositoryPath }>('preHandler', async (request) => {
      if (hasValidBody(request)) return
      const { repository } = await onRepository(services, request, 'read')
      await requireMayCommit(services, repository.id, signedIn(request), repository.defaultBranch)
    })
    readBase64Bodies(app, { key: 'content', maxTextBytes: services.config.maxBodyBytes })

    app.post(
      '/repos/:owner/:repo/contents',
      {
        ...withFiles,
        ...route('repository', {
          params: RepositoryParams,
          body: bodies.change,
          response: { 201: FilesWire },
        }),
      },
      async (request, reply) => {
        const { body } = request
        const answer = await change(request, reply, body, () =>
          body.files.map((file, i) => requestedChange(file, decode(request), `files.${i}.`)),
        )
        return reply.code(201).send(answer)
      },
    )

    app.post(
      '/repos/:owner/:repo/contents/*',
      {
        ...withFiles,
        ...route('repository', { params: FileParams, body: bodies.create, response: { 201: FileWire } }),
      },
      async (request, reply) => {
        const { body, params } = request
        const file = { operation: 'create', path: params['*'], content: body.content }
        return reply
          .code(201)
          .send(await changeOne(request, reply, body, () => [requestedChange(file, decode(request))]))
      },
    )

    app.put(
      '/repos/:owner/:repo/contents/*',
      {
        ...withFiles,
        ...route('repository', {
          params: FileParams,
          body: bodies.update,
          response: { 200: FileWire, 201: FileWire },
        }),
      },
      async (request, reply) => {
        const { body, params } = request
        // Without a sha the file is new.
        const operation = body.sha || body.from_path ? 'update' : 'create'
        const file = { ...body, operation, path: params['*'] }
        const answer = await changeOne(request, reply, body, () => [requestedChange(file, decode(request))])
        return reply.code(operation === 'create' ? 201 : 200).send(answer)
      },
    )

    app.delete(
      '/repos/:owner/:repo/contents/*',
      route('repository', { params: FileParams, body: bodies.remove, response: { 200: FileWire } }),
      async (request, reply) => {
        const { body, params } = request
        const file = { operation: 'delete', path: params['*'], sha: body.sha }
        return changeOne(request, reply, body, () => [requestedChange(file, decode(request))])
      },
    )
  }
}
