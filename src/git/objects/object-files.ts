/** Lists the object files of a bare repository that is in use. */
import { join } from 'node:path'
import { namesIn } from '../../storage/disk.ts'

const FAN_OUT = /^[0-9a-f]{2}$/
const LOOSE_OBJECT = /^[0-9a-f]{38}$/
const PACK_FILE = /^(pack-[0-9a-f]{40})\.(?:pack|idx|rev|mtimes)$/
/** Packs vanish when an administrator repacks the repository. Listing them a few times is enough. */
const PACK_PASSES = 5

/**
 * Calls `take` for each directory below `objects` with the names of its files: first the directories of loose
 * objects (`ab`), then `pack`. `take` resolves to false when one of the files no longer exists. In the end every
 * object that existed at the call has been taken: in its own file, or in a pack that was made meanwhile.
 * Resolves to false when packs kept vanishing. Then some objects may be missing.
 */
export async function takeObjectFiles(
  objects: string,
  take: (directory: string, names: readonly string[]) => Promise<boolean>,
): Promise<boolean> {
  // Loose objects first: an object that is packed meanwhile is then in one of the listed packs.
  for (const fan of await namesIn(objects)) {
    if (!FAN_OUT.test(fan)) continue
    const names = (await namesIn(join(objects, fan))).filter((name) => LOOSE_OBJECT.test(name))
    if (names.length > 0) await take(fan, names)
  }
  for (let pass = 0; pass < PACK_PASSES; pass++) {
    const names = await namesIn(join(objects, 'pack'))
    // git writes the index last. A pack without an index is not complete, and nothing uses it yet.
    const complete = new Set(names.filter((name) => name.endsWith('.idx')).map((name) => name.slice(0, -4)))
    const wanted = names.filter((name) => complete.has(PACK_FILE.exec(name)?.[1] ?? ''))
    if (await take('pack', wanted)) return true
  }
  return false
}
