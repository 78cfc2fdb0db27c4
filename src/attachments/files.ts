/**
 * Where attached files live: `<uuid>` in a directory named for its first two digits. A file gets there whole
 * and flushed, before any event tells of it, and never changes.
 */
import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, mkdir, open, opendir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { flush, isMissing } from '../disk.ts'
import { HEAD_BYTES } from './file-kind.ts'

/** What has come in, flushed under a temporary name. */
export interface ReceivedFile {
  uuid: string
  /** In bytes. */
  size: number
  /** The first bytes, by which its kind is told. */
  head: Buffer
  /** SHA-256, when it was asked for. */
  digest: string | undefined
}

export interface AttachmentFiles {
  /**
   * Writes what comes in to a temporary file. When it fails nothing is left behind; errors of the source
   * are passed on.
   *
   * @throws FileTooLarge
   */
  receive(uuid: string, source: AsyncIterable<Buffer>, options: ReceiveOptions): Promise<ReceivedFile>
  /** Gives a received file its place, which outlives a power cut. */
  keep(uuid: string): Promise<void>
  /** Removes a file, received or kept, if it is there. */
  remove(uuid: string): Promise<void>
  /** The first bytes of a kept file; undefined when there is none. */
  head(uuid: string): Promise<Buffer | undefined>
  /** A kept file's path below `directory`. */
  pathOf(uuid: string): string
  readonly directory: string
  /**
   * Removes the files of earlier processes that `known` leaves out, and resolves to their number. To be
   * called once, while files come in or not. `known` is asked about many at once.
   */
  removeUnknown(known: (uuids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<number>
}

export interface ReceiveOptions {
  /** In bytes. */
  maxSize: number
  digest: boolean
}

export class FileTooLarge extends Error {
  override readonly name = 'FileTooLarge'
  /** For HTTP: content too large. */
  readonly statusCode = 413

  constructor(maxSize: number) {
    super(`the file may have ${maxSize} bytes at most`)
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export const isUuid = (text: string) => UUID.test(text)

/** How many uuids are looked up at once. */
const BATCH = 500
/** Written data is flushed each time so much of it has come together, in bytes: a huge file doesn't stall the disk at its end. */
const FLUSH_EVERY = 64 * 1024 * 1024

/** Opens (or makes) the directory; one process at a time may have it open. */
export async function openAttachmentFiles(directory: string): Promise<AttachmentFiles> {
  const incoming = join(directory, 'incoming')
  // What a process that died was still receiving belongs to nobody.
  await rm(incoming, { recursive: true, force: true })
  await mkdir(incoming, { recursive: true })
  await flush(directory)

  /** Files of this process, as long as those of earlier ones are looked for: their events may not be visible yet. */
  let own: Set<string> | undefined = new Set()

  const shelfOf = (uuid: string) => {
    if (!isUuid(uuid)) throw new TypeError(`not the name of an attached file: ${JSON.stringify(uuid)}`)
    return uuid.slice(0, 2)
  }
  const pathOf = (uuid: string) => `${shelfOf(uuid)}/${uuid}`
  const incomingPath = (uuid: string) => join(incoming, `${shelfOf(uuid)}-${uuid}`)

  return {
    directory,
    pathOf,

    async receive(uuid, source, { maxSize, digest }) {
      const path = incomingPath(uuid)
      const handle = await open(path, 'wx')
      try {
        const hash = digest ? createHash('sha256') : undefined
        const received = await write(handle, source, maxSize, hash)
        await handle.sync()
        return { uuid, ...received, digest: hash?.digest('base64url') }
      } catch (error) {
        await rm(path, { force: true }).catch(() => undefined)
        throw error
      } finally {
        await handle.close()
      }
    },

    async keep(uuid) {
      own?.add(uuid)
      const shelf = join(directory, shelfOf(uuid))
      const made = await mkdir(shelf, { recursive: true })
      await rename(incomingPath(uuid), join(shelf, uuid))
      await flush(shelf)
      if (made !== undefined) await flush(directory)
    },

    async remove(uuid) {
      await rm(incomingPath(uuid), { force: true })
      await rm(join(directory, pathOf(uuid)), { force: true })
    },

    async head(uuid) {
      try {
        const handle = await open(join(directory, pathOf(uuid)))
        try {
          const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)
          return buffer.subarray(0, bytesRead)
        } finally {
          await handle.close()
        }
      } catch (error) {
        if (isMissing(error)) return undefined
        throw error
      }
    },

    async removeUnknown(known) {
      let removed = 0
      async function sift(batch: readonly string[]): Promise<void> {
        const kept = await known(batch)
        for (const uuid of batch) {
          if (kept.has(uuid)) continue
          await rm(join(directory, pathOf(uuid)), { force: true })
          removed += 1
        }
      }
      let batch: string[] = []
      for await (const uuid of storedIn(directory)) {
        if (own?.has(uuid)) continue
        if (batch.push(uuid) < BATCH) continue
        await sift(batch)
        batch = []
      }
      if (batch.length > 0) await sift(batch)
      own = undefined
      return removed
    },
  }
}

async function write(
  handle: FileHandle,
  source: AsyncIterable<Buffer>,
  maxSize: number,
  hash: Hash | undefined,
): Promise<{ size: number; head: Buffer }> {
  const head = Buffer.alloc(HEAD_BYTES)
  let size = 0
  let unflushed = 0
  for await (const chunk of source) {
    if (size + chunk.length > maxSize) throw new FileTooLarge(maxSize)
    if (size < HEAD_BYTES) chunk.copy(head, size)
    hash?.update(chunk)
    await handle.writeFile(chunk)
    size += chunk.length
    unflushed += chunk.length
    if (unflushed < FLUSH_EVERY) continue
    await handle.datasync()
    unflushed = 0
  }
  return { size, head: head.subarray(0, Math.min(size, HEAD_BYTES)) }
}

/** The uuids of all kept files, in no order; what else lies there is nobody's business. */
async function* storedIn(directory: string): AsyncGenerator<string> {
  for await (const shelf of await opendir(directory)) {
    if (!shelf.isDirectory() || !/^[0-9a-f]{2}$/.test(shelf.name)) continue
    for await (const file of await opendir(join(directory, shelf.name))) {
      if (file.isFile() && isUuid(file.name) && file.name.startsWith(shelf.name)) yield file.name
    }
  }
}
