/**
 * The bytes of files: `GET /repos/{owner}/{repo}/raw/{path}` and `…/media/{path}`, and the pages'
 * `/{owner}/{repo}/raw/…`.
 */
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import contentDisposition from 'content-disposition'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { commitFor, entryFor } from '../../api/contents/contents-at.ts'
import { type Caller, ifServed } from '../../api/contents/reached-objects.ts'
import { refsOf } from '../../api/contents/refs-in-time.ts'
import { type FoundObject, lfsObjectsFor, openLfsFile } from '../../api/lfs/lfs-objects.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { clientOf } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { commitFacts } from '../../git/commits/commits.ts'
import { lastCommits } from '../../git/commits/last-commits.ts'
import { commitAndPath, type NamedCommit } from '../../git/commits/named-commit.ts'
import { pointerIn } from '../../git/lfs/lfs-pointer.ts'
import type { ObjectHeader } from '../../git/objects/batch-answers.ts'
import { blobHeader, blobStream, isSmall, smallBlobs } from '../../git/objects/blobs.ts'
import { pathInUrl } from '../../git/objects/byte-names.ts'
import { entryName, kindOf } from '../../git/trees/tree-entries.ts'
import {
  isUnchanged,
  type Part,
  partOf,
  partOfStream,
  type SizedFile,
} from '../../http/answers/byte-ranges.ts'
import { basePath } from '../../http/requests/base-path.ts'
import { disconnectSignal } from '../../http/requests/client-disconnect.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { HEAD_BYTES, servedAs, sniff } from '../../storage/attachments/file-kind.ts'
import { FILE_HEADERS, RANGED_FILE_ANSWER } from './file-answers.ts'

const NOT_FILES: ReadonlySet<string> = new Set(['dir', 'submodule'])

/** A file at a commit. */
interface FileAt {
  repository: RepositoryDocument
  commit: { sha: string }
  path: string
}

/** The bytes of a file, with data for conditions and ranges. */
interface Source extends SizedFile {
  /** The beginning, for the detection of the type; the whole file when it is in memory. */
  first: Buffer
  /** Streams a part; absent when `first` is the whole file. */
  read?: (part: Part) => Readable
  /** Releases the source. */
  close(): void
}

/**
 * Sends a file of git or, with `follows`, its LFS object. As in Gitea, a pointer without its object is sent itself.
 * @throws Refused (not found) for anything but a file
 */
async function sendFile(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  { repository, commit, path }: FileAt,
  follows = false,
): Promise<FastifyReply> {
  const named = { kind: 'commit', name: commit.sha, sha: commit.sha } as const
  const { entry, parts } = await entryFor(services, { repository, commit: named }, path)
  const kind = kindOf(entry)
  if (NOT_FILES.has(kind)) throw new Refused(refuse.notFound(`this is a ${kind}, not a file`))
  const dir = gitDirOf(services, repository.id)
  const header = await blobHeader(dir, entry.id)
  const content = isSmall(header) ? (await smallBlobs(dir, [header])).get(header.sha) : undefined
  const pointer = follows && kind === 'file' ? pointerIn(content) : undefined
  const found =
    pointer && (await lfsObjectsFor(services, request, reply, repository.id, [pointer.oid])).get(pointer.oid)
  const tag = `"${found?.oid ?? entry.id}"`
  const hasIt = isUnchanged(request.headers, { tag })
  const lastModified = hasIt ? undefined : await changedAt(dir, commit.sha, parts)
  const tagged = {
    ETag: tag,
    'X-Gitea-Object-Type': kind,
    'Accept-Ranges': 'bytes',
    ...FILE_HEADERS,
    ...(lastModified && { 'Last-Modified': lastModified.toUTCString() }),
  }
  if (hasIt || isUnchanged(request.headers, { tag, lastModified })) {
    return reply.headers(tagged).code(304).send(null)
  }
  const source = found
    ? await objectSource(services, found, { tag, lastModified })
    : await blobSource(services, request, reply, { dir, header, content, tag, lastModified })
  try {
    const name = parts.at(-1) ?? ''
    const { type, disposition } = servedAs(name, await sniff(source.first.subarray(0, HEAD_BYTES)))
    reply.headers({
      ...tagged,
      'Content-Type': type,
      // Plain text is harmless in a browser.
      'Content-Disposition': contentDisposition(name, {
        type: type.startsWith('text/plain') ? 'inline' : disposition,
      }),
    })
    return sendPart(request, reply, source)
  } catch (error) {
    source.close()
    throw error
  }
}

/** Sends the requested part. */
function sendPart(request: FastifyRequest, reply: FastifyReply, source: Source): FastifyReply {
  const { size, first, read, close } = source
  const wanted = request.method === 'HEAD' ? 'whole' : partOf(request.headers, source)
  if (wanted === 'outside') {
    close()
    reply.header('Content-Range', `bytes */${size}`).removeHeader('Content-Type')
    reply.removeHeader('Content-Disposition')
    throw Object.assign(new Error('the file does not have the requested range'), { statusCode: 416 })
  }
  const part = wanted === 'whole' ? { start: 0, end: size - 1 } : wanted
  reply.header('Content-Length', part.end - part.start + 1)
  if (wanted !== 'whole') reply.code(206).header('Content-Range', `bytes ${part.start}-${part.end}/${size}`)
  if (request.method === 'HEAD') {
    close()
    return reply.send(Readable.from([]))
  }
  return reply.send(read === undefined ? first.subarray(part.start, part.end + 1) : read(part))
}

/** Returns the time of the path's last change; undefined when it is far back in the history. Starts no process. */
async function changedAt(dir: string, commit: string, parts: readonly string[]): Promise<Date | undefined> {
  const name = entryName(parts.at(-1) ?? '')
  const sha = (await lastCommits(dir, commit, parts.slice(0, -1), new Set([name]))).get(name)
  const facts = sha === undefined ? undefined : (await commitFacts(dir, [sha])).get(sha)
  return facts && new Date(facts.committer.date)
}

type Conditions = Pick<SizedFile, 'tag' | 'lastModified'>

async function blobSource(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  {
    dir,
    header,
    content,
    ...conditions
  }: Conditions & {
    dir: string
    header: ObjectHeader
    content: Buffer | undefined
  },
): Promise<Source> {
  const { sha, size } = header
  if (content !== undefined) return { ...conditions, size, first: content, close() {} }
  const share = services.gitLimits.reads.shareOf(clientOf(request))
  const { first, stream } = await blobStream(dir, sha, { signal: disconnectSignal(reply), share })
  return {
    ...conditions,
    size,
    first,
    // Reads and drops the bytes before the part, because git cannot seek in an object.
    read: (part) => partOfStream(stream, part),
    close: () => void stream.destroy(),
  }
}

/** @throws Refused (not found) when the file is lost */
async function objectSource(
  services: Services,
  object: FoundObject,
  conditions: Conditions,
): Promise<Source> {
  const { oid, repoId, size } = object
  const file = await openLfsFile(services, object)
  if (file === undefined) {
    services.log.warn({ repoId, oid }, 'the file of an LFS object is missing')
    throw notFoundIn(services.views.lfsObjects, 'the file of this LFS object is missing')
  }
  const close = () => void file.close().catch(() => undefined)
  try {
    const head = Buffer.alloc(Math.min(size, HEAD_BYTES))
    await file.read(head, 0, head.length, 0)
    // The stream closes the file.
    return { ...conditions, size, first: head, read: ({ start, end }) => partOfFile(file, start, end), close }
  } catch (error) {
    close()
    throw error
  }
}

/** Streams a part, also of an empty file. */
function partOfFile(file: FileHandle, start: number, end: number): Readable {
  return file.createReadStream({ start, end: Math.max(start, end) })
}

const ref = OptionalText('Branch, tag or commit; without it, the path may begin with one')

/** Returns the commit with which the path begins, and the path in it; undefined also for an unreachable commit. */
export async function servedAt(
  services: Services,
  caller: Caller,
  repository: RepositoryDocument,
  path: string,
  kind?: NamedCommit['kind'],
) {
  const found = await commitAndPath(refsOf(services, repository.id), path, kind)
  return found && (await ifServed(services, caller, repository, found.commit)) && found
}

/** The routes of the API. For an LFS pointer, `raw` sends the pointer and `media` its object. */
export function fileDownloadRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    for (const word of ['raw', 'media'] as const) {
      app.get(
        `/repos/:owner/:repo/${word}/*`,
        {
          compress: false,
          schema: {
            tags: ['repository'],
            params: Type.Object({ ...RepositoryParams.properties, '*': Type.String() }),
            querystring: Type.Object({ ref }),
            response: RANGED_FILE_ANSWER,
          },
        },
        async (request, reply) => {
          const { repository } = await onRepository(services, request, 'read')
          const path = request.params['*']
          const caller = { request, reply }
          const { ref } = request.query
          const found = ref ? undefined : await servedAt(services, caller, repository, path)
          const file = found ?? { commit: await commitFor(services, caller, repository, ref), path }
          return sendFile(services, request, reply, { repository, ...file }, word === 'media')
        },
      )
    }
  }
}

const KINDS = ['branch', 'tag', 'commit'] as const

const PagePath = Type.Object({ ...RepositoryParams.properties, kind: Type.String(), '*': Type.String() })

/** The addresses in `download_url` and, as `html_url`, of files and directories, outside the API. */
export function rawPageRoutes(services: Services): FastifyPluginAsyncTypebox {
  /** @throws Refused (not found) */
  async function placeAt(
    request: FastifyRequest<{ Params: Static<typeof PagePath> }>,
    reply: FastifyReply,
    repository: RepositoryDocument,
  ) {
    const { kind: named, '*': path } = request.params
    const kind = KINDS.find((known) => known === named)
    const found = kind && (await servedAt(services, { request, reply }, repository, path, kind))
    if (found === undefined) throw new Refused(refuse.notFound('there is no such branch, tag or commit'))
    return found
  }

  return async (app) => {
    const config = { scope: 'repository' } as const
    app.get(
      '/:owner/:repo/raw/:kind/*',
      {
        compress: false,
        config,
        schema: { tags: ['repository'], params: PagePath, response: RANGED_FILE_ANSWER },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return sendFile(services, request, reply, {
          repository,
          ...(await placeAt(request, reply, repository)),
        })
      },
    )

    app.get(
      '/:owner/:repo/src/:kind/*',
      { config, schema: { hide: true, params: PagePath } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { commit, path } = await placeAt(request, reply, repository)
        const named = { kind: 'commit', name: commit.sha, sha: commit.sha } as const
        const isFile =
          path !== '' &&
          !NOT_FILES.has(kindOf((await entryFor(services, { repository, commit: named }, path)).entry))
        const base = basePath(services.publicUrl())
        const fullName = `${repository.ownerLogin}/${repository.name}`
        const { kind, '*': refAndPath } = request.params
        return reply.redirect(
          isFile
            ? `${base}/${fullName}/raw/${kind}/${pathInUrl(refAndPath)}`
            : `${base}/api/v1/repos/${fullName}/contents/${pathInUrl(path)}?ref=${commit.sha}`,
          302,
        )
      },
    )
  }
}
