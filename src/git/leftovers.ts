/** Removes what git processes leave behind when they are killed during a write. */
import type { Dirent } from 'node:fs'
import { opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../disk.ts'

/**
 * Removes the locks of refs and the half-received objects that were last written before `before` (milliseconds
 * since 1970). The processes that wrote them must have ended.
 */
export async function removeLeftovers(dir: string, before: number): Promise<void> {
  for (const name of ['packed-refs.lock', 'packed-refs.new', 'HEAD.lock'])
    await removeOld(join(dir, name), before)
  for await (const path of filesBelow(join(dir, 'refs'))) {
    if (path.endsWith('.lock')) await removeOld(path, before)
  }
  for await (const entry of entries(join(dir, 'objects'))) {
    if (entry.name.startsWith('tmp_objdir-')) await removeOld(join(dir, 'objects', entry.name), before)
  }
  for await (const entry of entries(join(dir, 'objects', 'pack'))) {
    if (entry.name.startsWith('tmp_')) await removeOld(join(dir, 'objects', 'pack', entry.name), before)
  }
}

async function removeOld(path: string, before: number): Promise<void> {
  try {
    const { mtimeMs } = await stat(path)
    if (mtimeMs < before) await rm(path, { recursive: true, force: true })
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const entry of entries(directory)) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}

async function* entries(directory: string): AsyncGenerator<Dirent> {
  try {
    yield* await opendir(directory)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}
