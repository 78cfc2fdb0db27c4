/** Stores the file of a request, and aborts requests that are too large. */
import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { type AttachmentFiles, FileTooLarge, type ReceivedFile } from '../../storage/attachments/files.ts'

/** Name of the form part with the file. */
const PART = 'attachment'
/** Maximum size of a request without the file, in bytes. Other parts are read and ignored. */
const MAX_OTHER_BYTES = 16 * 1024 * 1024
const LIMITS = { parts: 50, fields: 40, files: 10, fieldSize: 64 * 1024, headerPairs: 50 }
/**
 * Time for which the rest of a refused request is read, in milliseconds: many clients read the answer only at the end.
 */
const DRAIN_MS = 30_000

export interface Upload extends ReceivedFile {
  /** The name from the client. */
  fileName: string
}

/**
 * Reads a multipart request to its end and stores its first part `attachment`: in constant memory, flushed, under a
 * temporary name. Removes the file on failure. `maxSize`: of the file, in bytes. `digest`: whether to compute the
 * SHA-256.
 * @throws FileTooLarge when the file or the request is too large
 * @throws Refused (invalid) when the part is missing, or the request is malformed or aborted
 */
export async function receiveUpload(
  request: FastifyRequest,
  files: AttachmentFiles,
  { uuid, maxSize, digest }: { uuid: string; maxSize: number; digest: boolean },
): Promise<Upload> {
  if (!request.isMultipart()) throw new Refused(refuse.invalid('the request must be multipart/form-data'))
  const { raw } = request
  const maxTotal = maxSize + MAX_OTHER_BYTES
  if (Number(request.headers['content-length'] ?? 0) > maxTotal) throw new FileTooLarge(maxSize)
  let total = 0
  let tooMuch: FileTooLarge | undefined
  const count = (chunk: Buffer) => {
    total += chunk.length
    if (total <= maxTotal || tooMuch !== undefined) return
    tooMuch = new FileTooLarge(maxSize)
    // Ends the iteration below, as if the client had disconnected.
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

/** Yields the chunks of a file. Marks errors of the request, to tell them from errors of the disk. */
async function* chunksOf(file: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of file) if (Buffer.isBuffer(chunk)) yield chunk
  } catch (error) {
    throw malformed(error)
  }
}

/**
 * Stores a raw body as `receiveUpload` stores a part. `body`: after its content encoding is decoded.
 * @throws FileTooLarge
 * @throws Refused (invalid) when the request is aborted
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

/** Reads and ignores the rest of a request that was answered early. Disconnects the client after half a minute. */
export function drainRequest(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request
  if (raw.readableEnded || raw.destroyed) return
  raw.unpipe()
  // Without a listener an error would end the process.
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
