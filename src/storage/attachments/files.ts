/**
 * Stores attached files, each as `<uuid>` in a directory named after its first two digits. A file is complete and
 * flushed before an event mentions it, and it never changes.
 */
import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, mkdir, open, opendir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { limitReached } from '../../errors/limits.ts'
import { flush, flushNames, isAbandoned, makeDirectory, namesIn, unlessMissing, writtenAt } from '../disk.ts'
import { HEAD_BYTES } from './file-kind.ts'

/** An upload, flushed to disk under a temporary name. */
export interface ReceivedFile {
  uuid: string
  /** In bytes. */
  size: number
  /** The first bytes, from which the type of the file is detected. */
  head: Buffer
  /** SHA-256 in base64url; undefined when it was not requested. */
  digest: string | undefined
}

export type AttachmentFiles = Awaited<ReturnType<typeof openAttachmentFiles>>

export interface ReceiveOptions {
  /** In bytes. */
  maxSize: number
  digest: boolean
}

export class FileTooLarge extends Error {
  override readonly name = 'FileTooLarge'
  readonly statusCode = 413

  constructor(maxSize: number) {
    super(`the file may have at most ${maxSize} bytes`)
    limitReached('attachment_bytes')
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export const isUuid = (text: string) => UUID.test(text)

/** Number of uuids passed to `known` in one call. */
const BATCH = 500
/** Bytes between two flushes, so that the last flush of a huge file is short. */
const FLUSH_EVERY = 64 * 1024 * 1024

/**
 * Opens (or creates) the directory. Only one process at a time may have it open, unless all use `isShared`: then only
 * files that are too old to belong to a running upload are removed.
 */
export async function openAttachmentFiles(directory: string, { isShared = false } = {}) {
  const incoming = join(directory, 'incoming')
  // Remove incomplete uploads of an earlier process.
  if (!isShared) await rm(incoming, { recursive: true, force: true })
  await mkdir(incoming, { recursive: true })
  if (isShared) await removeAbandoned(incoming)
  await flush(directory)

  /**
   * Files kept by this process, whose events `removeUnknown` may not see yet. Undefined after `removeUnknown` has
   * succeeded.
   */
  let keptHere: Set<string> | undefined = new Set()

  const subdirectoryOf = (uuid: string) => {
    if (!isUuid(uuid)) throw new TypeError(`not the uuid of an attached file: ${JSON.stringify(uuid)}`)
    return uuid.slice(0, 2)
  }
  const pathOf = (uuid: string) => `${subdirectoryOf(uuid)}/${uuid}`
  const incomingPath = (uuid: string) => join(incoming, `${subdirectoryOf(uuid)}-${uuid}`)

  return {
    directory,
    /** The path of a kept file below `directory`. */
    pathOf,

    /**
     * Writes a stream to a temporary file. Removes it when the source fails.
     * @throws FileTooLarge
     */
    async receive(
      uuid: string,
      source: AsyncIterable<Buffer>,
      { maxSize, digest }: ReceiveOptions,
    ): Promise<ReceivedFile> {
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

    /** Moves an upload to its final path. Resolves when the file survives a power cut. */
    async keep(uuid: string): Promise<void> {
      keptHere?.add(uuid)
      const subdirectory = join(directory, subdirectoryOf(uuid))
      const isNew = await makeDirectory(subdirectory)
      await rename(incomingPath(uuid), join(subdirectory, uuid))
      await flush(subdirectory)
      if (isNew) await flushNames([subdirectory])
    },

    /** Removes an upload or a kept file, if it exists. */
    async remove(uuid: string): Promise<void> {
      await rm(incomingPath(uuid), { force: true })
      await rm(join(directory, pathOf(uuid)), { force: true })
    },

    /** The first bytes of a kept file; undefined when it does not exist. */
    async head(uuid: string): Promise<Buffer | undefined> {
      const handle = await unlessMissing(open(join(directory, pathOf(uuid))))
      try {
        const { buffer, bytesRead } = (await handle?.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0)) ?? {}
        return buffer?.subarray(0, bytesRead)
      } finally {
        await handle?.close()
      }
    },

    /**
     * Removes the orphaned files of earlier processes: those that `known` does not return. Resolves to their number.
     * Uploads may arrive meanwhile. `known` gets batches of uuids. After a success, further calls do nothing.
     */
    async removeUnknown(known: (uuids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<number> {
      if (keptHere === undefined) return 0
      let removed = 0
      async function removeUnknownOf(batch: readonly string[]): Promise<void> {
        const kept = await known(batch)
        for (const uuid of batch) {
          if (kept.has(uuid)) continue
          const path = join(directory, pathOf(uuid))
          // Another process may be about to append the event of this file.
          if (isShared && !isAbandoned((await unlessMissing(stat(path)))?.ctimeMs ?? Date.now())) continue
          await rm(path, { force: true })
          removed += 1
        }
      }
      let batch: string[] = []
      for await (const uuid of keptIn(directory)) {
        if (keptHere?.has(uuid)) continue
        if (batch.push(uuid) < BATCH) continue
        await removeUnknownOf(batch)
        batch = []
      }
      if (batch.length > 0) await removeUnknownOf(batch)
      keptHere = undefined
      return removed
    },
  }
}

async function removeAbandoned(incoming: string): Promise<void> {
  for (const name of await namesIn(incoming)) {
    const path = join(incoming, name)
    if (isAbandoned((await writtenAt(path)) ?? Date.now())) await rm(path, { force: true })
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

/** The uuids of all kept files, in any order. Ignores other files in the directory. */
async function* keptIn(directory: string): AsyncGenerator<string> {
  for await (const entry of await opendir(directory)) {
    if (!entry.isDirectory() || !/^[0-9a-f]{2}$/.test(entry.name)) continue
    for await (const file of await opendir(join(directory, entry.name))) {
      if (file.isFile() && isUuid(file.name) && file.name.startsWith(entry.name)) yield file.name
    }
  }
}
