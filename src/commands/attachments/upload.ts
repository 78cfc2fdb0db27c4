/** Stores the file of a multipart request, and ends requests that are too large. */
import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { type AttachmentFiles, FileTooLarge, type ReceivedFile } from '../../storage/attachments/files.ts'

/** The name of the part with the file. */
const PART = 'attachment'
/** Bytes that a request may have besides the file. Other parts are read and ignored. */
const MAX_BESIDES = 16 * 1024 * 1024
const LIMITS = { parts: 50, fields: 40, files: 10, fieldSize: 64 * 1024, headerPairs: 50 }
/** After a refusal the rest of a request is still read, for this time: many clients read the answer only at the end. */
const DRAIN_MS = 30_000

export interface Upload extends ReceivedFile {
  /** The name that the client gave. */
  fileName: string
}

/**
 * Reads a multipart request to its end and stores its first part `attachment`: in constant memory, flushed, under a
 * temporary name. When it fails, nothing is left on disk. `maxSize`: of the file, in bytes. `digest`: whether to
 * compute the file's SHA-256.
 *
 * @throws FileTooLarge when the file, or the request, is larger than allowed
 * @throws Refused (invalid) when the part is missing, or the request is malformed or cut off
 */
export async function receiveUpload(
  request: FastifyRequest,
  files: AttachmentFiles,
  { uuid, maxSize, digest }: { uuid: string; maxSize: number; digest: boolean },
): Promise<Upload> {
  if (!request.isMultipart()) throw new Refused(refuse.invalid('the request must be multipart/form-data'))
  const { raw } = request
  const most = maxSize + MAX_BESIDES
  if (Number(request.headers['content-length'] ?? 0) > most) throw new FileTooLarge(maxSize)
  let total = 0
  let tooMuch: FileTooLarge | undefined
  const count = (chunk: Buffer) => {
    total += chunk.length
    if (total <= most || tooMuch !== undefined) return
    tooMuch = new FileTooLarge(maxSize)
    // Ends the iteration below, as if the client had gone away.
    raw.emit('error', tooMuch)
  }
  raw.on('data', count)

  let upload: Upload | undefined
  try {
    const parts = request.parts({ limits: { ...LIMITS, fileSize: maxSize + 1 } })
    for (;;) {
      const { value: part, done } = await parts.next().catch((error: unknown) => {
        throw malformed(error)
      })
      if (done === true) break
      if (part.type !== 'file') continue
      if (part.fieldname !== PART || !part.filename || upload !== undefined) {
        part.file.resume()
        continue
      }
      const received = await files.receive(uuid, chunksOf(part.file), { maxSize, digest })
      upload = { ...received, fileName: part.filename }
    }
    if (upload !== undefined) return upload
    throw new Refused(refuse.invalid(`${PART}: the request has no file of this name`))
  } catch (error) {
    if (upload !== undefined) await files.remove(uuid)
    throw tooMuch ?? error
  } finally {
    raw.off('data', count)
  }
}

/** The chunks of a file. Marks errors of the request, to tell them from errors of the disk. */
async function* chunksOf(file: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of file) if (Buffer.isBuffer(chunk)) yield chunk
  } catch (error) {
    throw malformed(error)
  }
}

/**
 * Stores the body of a request that is the file itself, as `receiveUpload` does. `body`: what is left of it when its
 * content encoding is undone.
 *
 * @throws FileTooLarge
 * @throws Refused (invalid) when the request is cut off
 */
export async function receiveRawUpload(
  request: FastifyRequest,
  body: Readable,
  files: AttachmentFiles,
  { uuid, maxSize, digest }: { uuid: string; maxSize: number; digest: boolean },
): Promise<ReceivedFile> {
  if (Number(request.headers['content-length'] ?? 0) > maxSize) throw new FileTooLarge(maxSize)
  return files.receive(uuid, chunksOf(body), { maxSize, digest })
}

function malformed(error: unknown): Error {
  if (error instanceof FileTooLarge) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new Refused(refuse.invalid(`the body is malformed or incomplete: ${reason}`))
}

/**
 * Reads and ignores the rest of a request that was answered before its end. A client that still sends after half a
 * minute is cut off.
 */
export function drainRequest(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request
  if (raw.readableEnded || raw.destroyed) return
  raw.unpipe()
  // An error at this point has no effect, but without a listener it would end the process.
  raw.on('error', () => undefined)
  raw.resume()
  reply.raw.once('finish', () => {
    if (raw.readableEnded) return
    const timer = setTimeout(() => {
      limitReached('upload_time')
      raw.destroy()
    }, DRAIN_MS)
    timer.unref()
    raw.once('close', () => clearTimeout(timer))
    raw.once('end', () => clearTimeout(timer))
  })
}
