/** Stores an upload: checks limits, quota and type, and removes the file after a refusal. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { awaitPermissions } from '../../access/await-permissions.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Reservation } from '../../projections/installation/disk-usage.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { isAllowed, sniff } from '../../storage/attachments/file-kind.ts'
import { cleanFileName } from '../../storage/attachments/file-name.ts'
import { reserveSpace } from '../execution/reserve-space.ts'
import { drainRequest, receiveRawUpload, receiveUpload, type Upload } from './upload.ts'

/** File name when the client gives no usable one. */
const DEFAULT_FILE_NAME = 'attachment'

export const UploadQuery = Type.Object({
  name: Type.Optional(
    Type.String({ description: 'Name of the attachment; default: the name of the uploaded file' }),
  ),
})

export const EditAttachmentOptions = Type.Object(
  { name: Type.Optional(Type.String()) },
  { title: 'EditAttachmentOptions' },
)

/** Leaves multipart and raw bodies to the routes of this scope, and rejects other content types. */
export async function readUploads(app: FastifyInstance): Promise<void> {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
  await app.register(multipart, { throwFileSizeLimit: false })
  app.addHook('onError', async (request, reply) => drainRequest(request, reply))
}

/** `attachments.4`: checks the type of a file by its name and first bytes. @throws Refused (unprocessable) */
async function requireAllowed(allowed: readonly string[], name: string, head: Uint8Array): Promise<void> {
  if (isAllowed(allowed, name, await sniff(head))) return
  throw new Refused(refuse.unprocessable('attachment: files of this type are not allowed here'))
}

interface UploadOptions {
  repository: RepositoryDocument
  /** Allowed file types, in the syntax of `isAllowed`. */
  allowed: readonly string[]
  /** The name in the request. */
  name: string | undefined
  /** Whether a body without a form is the file itself, named as requested. */
  takesRaw?: boolean
}

/**
 * Stores the file of a request and records it. After a refusal the file is removed.
 * @throws FileTooLarge
 * @throws Refused (invalid, unprocessable, quota exceeded, insufficient storage)
 */
export async function storeUpload<T>(
  services: Services,
  request: FastifyRequest,
  { repository, allowed, name: asked, takesRaw = false }: UploadOptions,
  record: (upload: Upload, name: string) => Promise<T>,
): Promise<T> {
  const { attachments, config, diskUsage, freeSpace } = services
  const { id: repoId, ownerId, ownerLogin } = repository
  const owner = { id: ownerId, login: ownerLogin }
  const reserve = (bytes: number) =>
    reserveSpace({ config, diskUsage, freeSpace }, { owner, repoId, bytes, place: 'attachments' })
  // The announced size is checked before the upload, the real size after it.
  const bytes = Number(request.headers['content-length'] ?? 0)
  const announced = await reserve(Math.min(bytes, config.attachmentMaxBytes))
  announced.end('dropped')
  const uuid = randomUUID()
  const digest = request.headers['idempotency-key'] !== undefined
  const options = { uuid, maxSize: config.attachmentMaxBytes, digest }
  let received: Upload
  if (takesRaw && !request.isMultipart()) {
    if (!asked) throw new Refused(refuse.invalid('name: is required for a file that is not sent in a form'))
    const body = request.body instanceof Readable ? request.body : request.raw
    received = { ...(await receiveRawUpload(request, body, attachments, options)), fileName: asked }
  } else received = await receiveUpload(request, attachments, options)
  const name = cleanFileName(asked || received.fileName) ?? DEFAULT_FILE_NAME
  let taken: Reservation | undefined
  try {
    await requireAllowed(allowed, name, received.head)
    taken = await reserve(received.size)
    await attachments.keep(uuid)
  } catch (error) {
    taken?.end('dropped')
    await attachments.remove(uuid)
    throw error
  }
  try {
    // The upload may have taken hours: `record` checks the requester's permissions again.
    await awaitPermissions(services)
    await request.signInAgain()
    const recorded = await record(received, name)
    taken.end('written')
    return recorded
  } catch (error) {
    taken.end('dropped')
    // After any other failure it may be recorded. Otherwise the next start removes the file.
    if (error instanceof Refused) await attachments.remove(uuid)
    throw error
  }
}

/** Returns the new name of a file; the present one when the request has none. @throws Refused (unprocessable) */
export async function newNameOf(
  { attachments }: Pick<Services, 'attachments'>,
  file: { uuid: string; name: string },
  asked: string | null | undefined,
  allowed: readonly string[],
): Promise<string> {
  const name = asked === undefined || asked === null || asked === '' ? file.name : cleanFileName(asked)
  if (name === undefined) throw new Refused(refuse.unprocessable('name: has no visible characters'))
  if (name !== file.name) {
    const head = await attachments.head(file.uuid)
    await requireAllowed(allowed, name, head ?? Buffer.alloc(0))
  }
  return name
}
