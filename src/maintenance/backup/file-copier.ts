/** Copies files that never change, a few at a time, and computes the SHA-256 of each. */
import { createHash } from 'node:crypto'
import { link, mkdir, open, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { flush, unlessMissing } from '../../storage/disk.ts'

export interface CopiedFile {
  /** In bytes. */
  size: number
  /** SHA-256, hexadecimal. */
  sha256: string
  /** Whether it is a hard link to the copy in an earlier backup. */
  isLinked?: true
}

/**
 * Copies one file. Resolves when the copy is written, but not flushed; to undefined when the original does
 * not exist. `to` must not exist.
 */
export type FileCopier = (from: string, to: string) => Promise<CopiedFile | undefined>

/** Maximum number of bytes of a file held in memory. */
const CHUNK = 1024 * 1024

/** An original file. */
export interface Original {
  path: string
  /** In bytes. */
  size: number
  mtimeMs: number
}

export interface CopierOptions {
  /** Whether a copy gets the time of its original. */
  keepsTimes?: boolean
  /** Creates the copy in another way, if possible. `to` does not exist. */
  before?: (original: Original, to: string) => Promise<CopiedFile | undefined>
}

/**
 * Hard links to one file become hard links to one copy, so that a backup is not larger than the original:
 * forks share objects as hard links. The copy itself is never a hard link to the original: damage to the
 * original must not damage the backup.
 */
export function createFileCopier({ keepsTimes = false, before }: CopierOptions = {}): FileCopier {
  /** Copies of files with further hard links, by device and inode. */
  const shared = new Map<string, { copy: Promise<CopiedFile>; path: string; left: number }>()

  return async (from, to) => {
    const source = await unlessMissing(open(from, 'r'))
    if (source === undefined) return undefined
    try {
      const { dev, ino, nlink, size, mtimeMs } = await source.stat()
      const write = async (): Promise<CopiedFile> => {
        const created = await before?.({ path: from, size, mtimeMs }, to)
        if (created !== undefined) return created
        const target = await createFile(to)
        try {
          const sha256 = await readThrough(source, size, target)
          if (keepsTimes) await target.utimes(new Date(), new Date(Math.round(mtimeMs)))
          return { size: (await target.stat()).size, sha256 }
        } finally {
          await target.close()
        }
      }
      if (nlink < 2) return await write()
      const key = `${dev}:${ino}`
      const known = shared.get(key)
      if (known === undefined) {
        const copy = write()
        shared.set(key, { copy, path: to, left: nlink - 1 })
        return await copy
      }
      known.left -= 1
      if (known.left === 0) shared.delete(key)
      const copied = await known.copy
      await mkdir(dirname(to), { recursive: true })
      // Linking fails when the copy was deleted with its repository, or when it has too many links. Then
      // copy.
      return await link(known.path, to).then(() => copied, write)
    } finally {
      await source.close()
    }
  }
}

type Handle = Awaited<ReturnType<typeof open>>

async function createFile(path: string): Promise<Handle> {
  const file = await unlessMissing(open(path, 'wx'))
  if (file !== undefined) return file
  await mkdir(dirname(path), { recursive: true })
  return await open(path, 'wx')
}

/** Reads a file to its end and resolves to its SHA-256. Copies it to `target`, if given. */
async function readThrough(source: Handle, size: number, target?: Handle): Promise<string> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(Math.min(size + 1, CHUNK))
  for (;;) {
    const { bytesRead } = await source.read(buffer, 0, buffer.length)
    if (bytesRead === 0) return hash.digest('hex')
    const chunk = buffer.subarray(0, bytesRead)
    hash.update(chunk)
    await target?.writeFile(chunk)
  }
}

/** The size and SHA-256 of an existing file. */
export async function sumOf(path: string): Promise<CopiedFile> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    return { size, sha256: await readThrough(file, size) }
  } finally {
    await file.close()
  }
}

/**
 * Flushes all files and directories below a directory, deepest first. This runs once at the end: the system
 * has written most data by then. Flushing each file after its copy would delay the server's own flushes.
 */
export async function flushTree(directory: string): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true })
  for (const entry of entries) if (entry.isDirectory()) await flushTree(join(directory, entry.name))
  const files = entries.filter((entry) => entry.isFile())
  await forEachConcurrently(files, ({ name }) => flush(join(directory, name)))
  await flush(directory)
}
