/** Buffers the whole body of a git client's request before git gets it, so that git processes never wait for a client. */
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { isMissing } from '../../storage/disk.ts'
import { GitUnavailable, RepositoryMissing } from '../process/errors.ts'
import { bodyError } from './request-body.ts'

/** Larger bodies are buffered in a file. */
const MAX_IN_MEMORY = 64 * 1024

/** Prefix of a body's file. After a crash, `removeLeftovers` removes the file. */
const FILE_PREFIX = 'tmp_body_'
/** Maximum number of bytes of a too large body to read and drop, so that the client reads the answer. */
const MAX_DROPPED = 1024 ** 3

export interface BufferedBody {
  size: number
  /** The bytes, without the first `skip` ones. May be called again. */
  stream(skip?: number): Readable
  /** Frees the file. Call it after the last read. */
  release(): Promise<void>
}

/**
 * Reads `body` to its end. Bodies of more than 64 KiB are buffered in an unnamed file below the repository at `dir`: it
 * vanishes when the process ends.
 * @param front bytes of the body that were read before
 * @param most approximate maximum number of buffered bytes; the rest is dropped
 * @throws the body's own error, RepositoryMissing, GitUnavailable when the file can't be written, or the signal's
 * reason
 */
export async function bufferBody(
  dir: string,
  body: Readable,
  {
    front = Buffer.alloc(0),
    most = Number.POSITIVE_INFINITY,
    signal,
  }: { front?: Buffer; most?: number; signal?: AbortSignal | undefined } = {},
): Promise<BufferedBody> {
  let chunks: Buffer[] = [front]
  let size = front.length
  let written = 0
  let dropped = 0
  let file: FileHandle | undefined

  async function writeOut(): Promise<void> {
    try {
      file ??= await unnamedFile(dir)
      const data = Buffer.concat(chunks)
      chunks = []
      for (let done = 0; done < data.length; ) {
        const { bytesWritten } = await file.write(data, done, data.length - done, written)
        done += bytesWritten
        written += bytesWritten
      }
    } catch (cause) {
      if (isMissing(cause)) throw new RepositoryMissing(`no repository at ${dir}`)
      throw new GitUnavailable("a request's body can't be buffered", { cause })
    }
  }

  const aborted = () => body.destroy(signal?.reason)
  signal?.addEventListener('abort', aborted, { once: true })
  try {
    signal?.throwIfAborted()
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      if (size > most) {
        dropped += chunk.length
        if (dropped > MAX_DROPPED) break
        continue
      }
      chunks.push(chunk)
      size += chunk.length
      if (size - written > MAX_IN_MEMORY) await writeOut()
    }
    if (file !== undefined) await writeOut()
  } catch (error) {
    await file?.close()
    throw bodyError(error)
  } finally {
    signal?.removeEventListener('abort', aborted)
  }
  return {
    size,
    stream: (skip = 0) =>
      file === undefined
        ? Readable.from([Buffer.concat(chunks).subarray(skip)], { objectMode: false })
        : Readable.from(contentOf(file, skip), { objectMode: false }),
    release: async () => await file?.close(),
  }
}

/** Yields the file's content. Destroying the file's own stream would close the file, which may be read again. */
async function* contentOf(file: FileHandle, start: number): AsyncGenerator<Buffer> {
  for (let at = start; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(MAX_IN_MEMORY), 0, MAX_IN_MEMORY, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** Creates a file and removes its name. */
async function unnamedFile(dir: string): Promise<FileHandle> {
  const path = join(dir, 'objects', 'pack', `${FILE_PREFIX}${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}
