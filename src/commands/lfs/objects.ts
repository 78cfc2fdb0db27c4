/**
 * LFS objects: `POST /{owner}/{repo}.git/info/lfs/objects/batch`, and the transfers that it names, with git's
 * permissions. The log decides which objects a repository has; other files on disk belong to none.
 */

import { once } from 'node:events'
import { ReadStream } from 'node:fs'
import { send } from '@fastify/send'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { awaitPermissions } from '../../access/await-permissions.ts'
import {
  LFS_JSON,
  type LfsActions,
  LfsBatchBody,
  LfsBatchWire,
  LfsObjectBody,
  type LfsObjectWire,
  lfsActions,
} from '../../api/lfs/lfs.ts'
import { type FoundObject, lfsObjectsFor } from '../../api/lfs/lfs-objects.ts'
import { requesterNow } from '../../auth/auth.ts'
import { clientOf } from '../../auth/requester.ts'
import { emptyAnswer, type Routes } from '../../auth/routes.ts'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { LfsObject } from '../../events/catalog/lfs.ts'
import { paceBody } from '../../git/http/request-body.ts'
import { hasLfsFile, isOid, lfsPath, receiveLfsFile } from '../../git/lfs/lfs-files.ts'
import { errorAnswer } from '../../http/answers/error-answers.ts'
import { hasValidBody } from '../../http/requests/deferred-validation.ts'
import { type LfsObjectDocument, lfsObjectId } from '../../projections/models/lfs/lfs-objects.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf } from '../../services/services.ts'
import { isMissing } from '../../storage/disk.ts'
import { drainRequest } from '../attachments/upload.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { reserveSpace } from '../execution/reserve-space.ts'
import { gitRepository, requireNotArchived } from '../git/git-repository.ts'
import { mayPushAnyBranch } from '../pull-requests/maintainer-edits.ts'
import { LFS_TAGS, lfsSchema, parseLfsBodies } from './json-routes.ts'
import { recordLfsObjects } from './record-objects.ts'

const ObjectParams = Type.Object({ owner: Type.String(), repo: Type.String(), oid: Type.String() })
const UploadParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  oid: Type.String(),
  size: Type.String(),
})

const CONTENT = { '*/*': { schema: Type.String({ format: 'binary' }) } }

/** Returns the object in the path of an upload. @throws Refused */
function objectIn({ oid, size }: Static<typeof UploadParams>): LfsObject {
  if (!isOid(oid)) throw new Refused(refuse.unprocessable('oid: must be 64 hexadecimal digits in lower case'))
  if (!/^\d{1,15}$/.test(size)) throw new Refused(refuse.unprocessable('size: must be a number of bytes'))
  return { oid, size: Number(size) }
}

export const lfsObjectRoutes: Routes = (services) => {
  const { config, views, gitLimits } = services

  const known = async (repoId: number, oids: readonly string[]): Promise<Map<string, LfsObjectDocument>> => {
    const found = await views.lfsObjects.getMany(oids.map((oid) => lfsObjectId(repoId, oid)))
    return new Map(found.map((document) => [document.oid, document]))
  }

  const noSuchObject = () => notFoundIn(views.lfsObjects, 'object not found in this repository')

  function problemOf({ oid, size }: LfsObject): string | undefined {
    if (!isOid(oid)) return 'oid: must be 64 hexadecimal digits in lower case'
    if (size <= config.lfsMaxBytes) return undefined
    limitReached('lfs_bytes')
    return `size: an object may have at most ${config.lfsMaxBytes} bytes`
  }

  /** Returns the objects that the repository has and whose files exist: a lost one can be uploaded again. */
  async function presentOf(repoId: number, objects: readonly LfsObject[]): Promise<Set<string>> {
    const documents = await known(
      repoId,
      objects.filter(({ oid }) => isOid(oid)).map(({ oid }) => oid),
    )
    const present = new Set<string>()
    await forEachConcurrently([...documents.values()], async (object) => {
      if (await hasLfsFile(gitDirOf(services, repoId), object)) present.add(object.oid)
    })
    return present
  }

  async function uploads(
    repoId: number,
    objects: readonly LfsObject[],
    action: LfsActions,
  ): Promise<LfsObjectWire[]> {
    const present = await presentOf(repoId, objects)
    return objects.map(({ oid, size }) => {
      const message = problemOf({ oid, size })
      if (message !== undefined) return { oid, size, error: { code: 422, message } }
      // Without actions the client does nothing.
      if (present.has(oid)) return { oid, size }
      return { oid, size, actions: { upload: action(`/objects/${oid}/${size}`), verify: action('/verify') } }
    })
  }

  function downloads(
    documents: ReadonlyMap<string, FoundObject>,
    objects: readonly LfsObject[],
    action: LfsActions,
  ): LfsObjectWire[] {
    return objects.map(({ oid, size }) => {
      const found = documents.get(oid)
      if (!isOid(oid)) return { oid, size, error: { code: 422, message: problemOf({ oid, size }) ?? '' } }
      if (found === undefined) return { oid, size, error: { code: 404, message: 'object not found' } }
      return { oid, size: found.size, actions: { download: action(`/objects/${oid}`) } }
    })
  }

  /** Checks the permission again, since the upload may have taken hours. @throws Refused */
  async function requireStillAllowed(request: FastifyRequest, repoId: number): Promise<void> {
    await awaitPermissions(services)
    const requester = await requesterNow(request)
    const repository = await views.repositories.get(`${repoId}`)
    const access = repository === undefined ? 'none' : accessTo(repository, requester)
    if (repository === undefined || !atLeast(access, 'read')) {
      throw new Refused(refuse.notFound('repository not found'))
    }
    requireNotArchived(repository)
    if (atLeast(access, 'write') || (await mayPushAnyBranch(services, repository, requester))) return
    throw new Refused(refuse.forbidden('this needs write permission on the repository'))
  }

  async function upload(
    request: FastifyRequest<{ Params: Static<typeof UploadParams> }>,
    reply: FastifyReply,
  ): Promise<void> {
    const { repository } = await gitRepository(services, request, request.params, 'write')
    const { id: repoId, ownerId, ownerLogin } = repository
    const object = objectIn(request.params)
    const problem = problemOf(object)
    if (problem !== undefined) throw new Refused(refuse.unprocessable(problem))
    const announced = request.headers['content-length']
    if (announced !== undefined && Number(announced) !== object.size) {
      throw new Refused(
        refuse.unprocessable(`size: the request has ${announced} bytes, but must have ${object.size}`),
      )
    }
    if ((await presentOf(repoId, [object])).has(object.oid)) return drainRequest(request, reply)
    const release = await gitLimits.pushes.placeForBody(clientOf(request))
    try {
      const reservation = await reserveSpace(services, {
        owner: { id: ownerId, login: ownerLogin },
        repoId,
        bytes: object.size,
      })
      try {
        const body = paceBody(request.raw, gitLimits.pace)
        await receiveLfsFile(gitDirOf(services, repoId), object, body)
        await requireStillAllowed(request, repoId)
        const context = requestContext(request)
        await recordLfsObjects(services, context, repoId, 'upload', [object])
        reservation.end('written')
        await settled(services, context, reply)
      } catch (error) {
        reservation.end('dropped')
        throw error
      }
    } finally {
      release()
    }
  }

  async function download(
    request: FastifyRequest<{ Params: Static<typeof ObjectParams> }>,
    reply: FastifyReply,
  ) {
    const { repository } = await gitRepository(services, request, request.params, 'read')
    const { oid } = request.params
    const object = (await lfsObjectsFor(services, request, reply, repository.id, [oid])).get(oid)
    if (object === undefined) throw noSuchObject()
    const { statusCode, headers, stream } = await send(request.raw, `/${lfsPath(oid)}`, {
      root: gitDirOf(services, object.repoId),
      index: false,
      cacheControl: false,
      contentType: false,
    })
    const lost = () => {
      services.log.warn({ repoId: repository.id, oid }, 'the file of an LFS object is missing')
      return noSuchObject()
    }
    if (statusCode === 404) throw lost()
    if (statusCode === 412) throw new Refused(refuse.preconditionFailed('the object does not match If-Match'))
    if (statusCode === 416) {
      reply.header('Content-Range', headers['Content-Range'])
      throw Object.assign(new Error('the object does not have the requested range'), { statusCode })
    }
    if (statusCode >= 400) throw new Error(`sending ${oid} failed with ${statusCode}`)
    if (stream instanceof ReadStream) {
      await once(stream, 'open').catch((error: unknown) => {
        throw isMissing(error) ? lost() : error
      })
    }
    return reply
      .code(statusCode)
      .type('application/octet-stream')
      .headers(headers)
      .header('Content-Disposition', 'attachment')
      .header('Content-Security-Policy', "default-src 'none'; sandbox")
      .header('Cache-Control', 'private')
      .send(stream)
  }

  /** Streams the body, of any type, to disk. */
  async function uploadRoute(app: FastifyInstance): Promise<void> {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    app.addHook('onError', async (request, reply) => drainRequest(request, reply))
    app.put<{ Params: Static<typeof UploadParams> }>(
      '/:owner/:repo/info/lfs/objects/:oid/:size',
      {
        config: { streamsBody: true },
        schema: {
          tags: LFS_TAGS,
          consumes: ['application/octet-stream'],
          params: UploadParams,
          response: { 200: emptyAnswer('The repository has the object') },
        },
      },
      async (request, reply) => {
        await upload(request, reply)
        return reply.code(200).send()
      },
    )
  }

  return async (app) => {
    parseLfsBodies(app)
    await app.register(uploadRoute)

    app.post(
      '/:owner/:repo/info/lfs/objects/batch',
      {
        config: { scopeLevel: 'read' },
        schema: lfsSchema({
          body: LfsBatchBody,
          response: { 200: LfsBatchWire },
        }),
      },
      async (request, reply) => {
        if (!hasValidBody(request)) await gitRepository(services, request, request.params, 'read')
        const { operation, objects, transfers, hash_algo: algorithm } = request.body
        const needed = operation === 'upload' ? 'write' : 'read'
        const { repository } = await gitRepository(services, request, request.params, needed)
        if (transfers && transfers.length > 0 && !transfers.includes('basic')) {
          throw new Refused(refuse.unprocessable('transfers: only basic is supported'))
        }
        if (algorithm && algorithm !== 'sha256') {
          throw new Refused(refuse.conflict('hash_algo: only sha256 is supported'))
        }
        const { ownerLogin, name, id } = repository
        const path = [ownerLogin, name].map(encodeURIComponent).join('/')
        const base = `${services.publicUrl()}/${path}.git/info/lfs`
        const action = lfsActions(base, request.headers.authorization)
        const oids = objects.map(({ oid }) => oid)
        const wires =
          operation === 'upload'
            ? await uploads(id, objects, action)
            : downloads(await lfsObjectsFor(services, request, reply, id, oids), objects, action)
        return reply.type(LFS_JSON).send({ transfer: 'basic', objects: wires, hash_algo: 'sha256' })
      },
    )

    app.post(
      '/:owner/:repo/info/lfs/verify',
      {
        config: { scopeLevel: 'read' },
        schema: lfsSchema({
          body: LfsObjectBody,
          response: { 200: emptyAnswer('The repository has the object') },
        }),
      },
      async (request, reply) => {
        const { repository } = await gitRepository(services, request, request.params, 'read')
        const { oid, size } = request.body
        const found = isOid(oid) ? (await known(repository.id, [oid])).get(oid) : undefined
        // Not found for a lost file, too, so that the client uploads it again.
        if (found === undefined || !(await hasLfsFile(gitDirOf(services, repository.id), found)))
          throw noSuchObject()
        if (found.size !== size) throw new Refused(refuse.unprocessable(`size: must be ${found.size}`))
        return reply.code(200).send()
      },
    )

    app.get(
      '/:owner/:repo/info/lfs/objects/:oid',
      {
        schema: {
          tags: LFS_TAGS,
          params: ObjectParams,
          response: {
            200: { description: 'The object', content: CONTENT },
            206: { description: 'The part of the object that Range names', content: CONTENT },
            304: Type.Null({ description: 'The client has it: see If-None-Match and If-Modified-Since' }),
            416: errorAnswer(416),
          },
          refusals: ['preconditionFailed'],
        },
      },
      download,
    )
  }
}
