/** Copies files that never change, with the SHA-256 of each, a few at a time. */
import { createHash } from 'node:crypto'
import { link, mkdir, open, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { flush, isMissing } from '../disk.ts'

/** What was read and written. */
export interface CopiedFile {
  /** In bytes. */
  size: number
  /** SHA-256, hexadecimal. */
  sha256: string
}

/** Resolves when the copy is written, not flushed; to undefined when the original is gone. `to` must not exist. */
export type FileCopier = (from: string, to: string) => Promise<CopiedFile | undefined>

/** So much is held of a file at once, in bytes. */
const CHUNK = 1024 * 1024
/** Files that are copied at once: the server beside us needs the disk too. */
const CONCURRENT = 4

/**
 * Names of one file (forks share their objects so) are names of one copy, too: a backup is no larger than the
 * original. It shares nothing with the original itself, whose damage must not be its own.
 */
export function createFileCopier(): FileCopier {
  /** Copies of files that have names which were not met yet, by device and inode. */
  const shared = new Map<string, { copy: Promise<CopiedFile>; path: string; left: number }>()

  return async (from, to) => {
    const source = await open(from, 'r').catch((error: unknown) => {
      if (isMissing(error)) return undefined
      throw error
    })
    if (source === undefined) return undefined
    try {
      const { dev, ino, nlink, size } = await source.stat()
      const write = async (): Promise<CopiedFile> => {
        const target = await createFile(to)
        try {
          const sha256 = await pour(source, size, target)
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
      // The copy may be gone with its repository, or have more names than the file system can count.
      return await link(known.path, to).then(() => copied, write)
    } finally {
      await source.close()
    }
  }
}

type Handle = Awaited<ReturnType<typeof open>>

async function createFile(path: string): Promise<Handle> {
  try {
    return await open(path, 'wx')
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  await mkdir(dirname(path), { recursive: true })
  return await open(path, 'wx')
}

async function pour(source: Handle, size: number, target?: Handle): Promise<string> {
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

/** The size and SHA-256 of a file that is there. */
export async function sumOf(path: string): Promise<CopiedFile> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    return { size, sha256: await pour(file, size) }
  } finally {
    await file.close()
  }
}

/** Works on all items, a few at a time, in order. When one fails the rest is not begun, and it rejects as that one. */
export async function fewAtOnce<T>(
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<void>,
  limit = CONCURRENT,
): Promise<void> {
  const running = new Set<Promise<void>>()
  let failure: { error: unknown } | undefined
  try {
    for await (const item of items) {
      const one = work(item)
        .catch((error: unknown) => {
          failure ??= { error }
        })
        .finally(() => running.delete(one))
      running.add(one)
      if (running.size >= limit) await Promise.race(running)
      if (failure !== undefined) break
    }
  } finally {
    await Promise.all(running)
  }
  if (failure !== undefined) throw failure.error
}

/**
 * Flushes all files below a directory and the names in all directories, deepest first. Together, at the end: the
 * system has written most of it by then, where flushing each file as it comes would have the server's own
 * flushes wait for ours.
 */
export async function flushTree(directory: string): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true })
  for (const entry of entries) if (entry.isDirectory()) await flushTree(join(directory, entry.name))
  const files = entries.filter((entry) => entry.isFile())
  await fewAtOnce(files, ({ name }) => flush(join(directory, name)))
  await flush(directory)
}
