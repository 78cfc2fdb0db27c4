/** The one file that a multipart request brings, on its way to the disk; and an end for requests that bring too much. */
import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type AttachmentFiles, FileTooLarge, type ReceivedFile } from '../../attachments/files.ts'
import { watchStillness } from '../../git/request-body.ts'
import { Refused, refuse } from '../../refusal.ts'

/** The part that holds the file. */
const PART = 'attachment'
/** What a request may hold besides the file: other parts are read and forgotten. */
const MAX_BESIDES = 16 * 1024 * 1024
const LIMITS = { parts: 50, fields: 40, files: 10, fieldSize: 64 * 1024, headerPairs: 50 }
/** After a refusal the rest of a request is still read for so long, so that its client comes to reading why. */
const DRAIN_MS = 30_000

export interface Upload extends ReceivedFile {
  /** As the client calls it. */
  fileName: string
}

interface UploadOptions {
  uuid: string
  /** Of the file, in bytes. */
  maxSize: number
  /** Whether the file's SHA-256 is wanted. */
  digest: boolean
}

/**
 * Reads a multipart request to its end and stores the first part `attachment`, with flat memory; the file is
 * flushed, under a temporary name. When it fails nothing is left on disk.
 *
 * @throws FileTooLarge when the file, or the request, is larger than allowed
 * @throws Refused (invalid) when there is no such part, or the request is malformed or cut off
 */
export async function receiveUpload(
  request: FastifyRequest,
  files: AttachmentFiles,
  { uuid, maxSize, digest }: UploadOptions,
): Promise<Upload> {
  if (!request.isMultipart()) throw new Refused(refuse.invalid('the request must be multipart/form-data'))
  const { raw } = request
  const most = maxSize + MAX_BESIDES
  if (Number(request.headers['content-length'] ?? 0) > most) throw new FileTooLarge(maxSize)
  let total = 0
  let tooMuch: FileTooLarge | undefined
  const stillness = watchStillness((reason) => raw.destroy(reason))
  const count = (chunk: Buffer) => {
    stillness.moved()
    total += chunk.length
    if (total <= most || tooMuch !== undefined) return
    tooMuch = new FileTooLarge(maxSize)
    // Ends the iteration below as a client would that goes away.
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
    throw new Refused(refuse.invalid(`${PART}: the request has no such file`))
  } catch (error) {
    if (upload !== undefined) await files.remove(uuid)
    throw tooMuch ?? error
  } finally {
    raw.off('data', count)
    stillness.end()
  }
}

/** What comes in, with errors of the request told from those of the disk. */
async function* chunksOf(file: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of file) if (Buffer.isBuffer(chunk)) yield chunk
  } catch (error) {
    throw malformed(error)
  }
}

function malformed(error: unknown): Error {
  if (error instanceof FileTooLarge) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new Refused(refuse.invalid(`the multipart body is malformed or incomplete: ${reason}`))
}

/**
 * Reads what is left of a request that was answered before its end, and forgets it; a client that goes on for
 * longer than half a minute is cut off.
 */
export function drainRequest(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request
  if (raw.readableEnded || raw.destroyed) return
  raw.unpipe()
  // An error that comes when nobody reads any more is of no interest, but would end the process.
  raw.on('error', () => undefined)
  raw.resume()
  reply.raw.once('finish', () => {
    if (raw.readableEnded) return
    const timer = setTimeout(() => raw.destroy(), DRAIN_MS)
    timer.unref()
    raw.once('close', () => clearTimeout(timer))
    raw.once('end', () => clearTimeout(timer))
  })
}
