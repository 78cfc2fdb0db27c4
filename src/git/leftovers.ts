/** Removes what git processes leave behind when they are killed during a write. */
import { opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, unlessMissing } from '../disk.ts'

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
  for (const [directory, prefix] of [
    [join(dir, 'objects'), 'tmp_objdir-'],
    [join(dir, 'objects', 'pack'), 'tmp_'],
  ] as const) {
    const names = (await namesIn(directory)).filter((name) => name.startsWith(prefix))
    for (const name of names) await removeOld(join(directory, name), before)
  }
}

async function removeOld(path: string, before: number): Promise<void> {
  const found = await unlessMissing(stat(path))
  if (found !== undefined && found.mtimeMs < before) await rm(path, { recursive: true, force: true })
}

async function* filesBelow(directory: string): AsyncGenerator<string> {
  for await (const entry of (await unlessMissing(opendir(directory))) ?? []) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else yield path
  }
}
