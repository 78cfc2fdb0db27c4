/** Counts and sizes of a repository's object files, by names and sizes of files, without git. */
import { opendir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, unlessMissing } from '../../storage/disk.ts'

/** A pack and its accompanying files. */
export interface PackFiles {
  /** File name without extension. */
  name: string
  /** Size of the pack itself, in bytes. */
  bytes: number
  /** Last modification of the pack, in milliseconds since 1970. */
  writtenAt: number
  /** Whether it is a cruft pack of unreachable objects, with a file of their times. */
  isCruft: boolean
  /** Whether it has a reachability bitmap, which only a full repack writes. */
  hasBitmap: boolean
}

const PACK = /^(pack-[0-9a-f]{40})\.pack$/
const FAN_OUT = /^[0-9a-f]{2}$/

/** Returns the packs of a repository, the largest first. A pack without an index is incomplete and left out. */
export async function packsOf(dir: string): Promise<PackFiles[]> {
  const directory = join(dir, 'objects', 'pack')
  const names = new Set(await namesIn(directory))
  const packs: PackFiles[] = []
  for (const file of names) {
    const name = PACK.exec(file)?.[1]
    if (name === undefined || !names.has(`${name}.idx`)) continue
    const found = await unlessMissing(stat(join(directory, file)))
    if (found === undefined) continue
    const { size: bytes, mtimeMs: writtenAt } = found
    const isCruft = names.has(`${name}.mtimes`)
    packs.push({ name, bytes, writtenAt, isCruft, hasBitmap: names.has(`${name}.bitmap`) })
  }
  return packs.sort((a, b) => b.bytes - a.bytes)
}

/** Calls `take` with the path of each loose object. Resolves to their number. */
export async function eachLooseObject(dir: string, take: (path: string) => Promise<void>): Promise<number> {
  const objects = join(dir, 'objects')
  let count = 0
  for (const fan of await namesIn(objects)) {
    if (!FAN_OUT.test(fan)) continue
    for (const name of await namesIn(join(objects, fan))) {
      if (name.startsWith('tmp_')) continue
      count += 1
      await take(join(objects, fan, name))
    }
  }
  return count
}

export const looseObjects = (dir: string): Promise<number> => eachLooseObject(dir, async () => {})

/**
 * Returns the total size of the files below a directory, in bytes; 0 for a missing one. Ignores files that vanish
 * meanwhile. One file at a time: this is background work.
 */
export async function bytesBelow(directory: string): Promise<number> {
  let bytes = 0
  for await (const entry of (await unlessMissing(opendir(directory))) ?? []) {
    const path = join(directory, entry.name)
    bytes += entry.isDirectory()
      ? ((await unlessMissing(bytesBelow(path))) ?? 0)
      : ((await unlessMissing(stat(path)))?.size ?? 0)
  }
  return bytes
}
