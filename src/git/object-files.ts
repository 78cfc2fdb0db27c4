/** The files in which a bare repository keeps its objects, found while it is in use. */
import { join } from 'node:path'
import { namesIn } from '../disk.ts'

const FAN_OUT = /^[0-9a-f]{2}$/
const LOOSE_OBJECT = /^[0-9a-f]{38}$/
const PACK_FILE = /^(pack-[0-9a-f]{40})\.(?:pack|idx|rev)$/
/** Packs vanish when somebody repacks by hand; more often than this nobody does. */
const PACK_PASSES = 5

/**
 * Gives `take` the names of all files in one directory below `objects` after the other: `ab` and its like,
 * `pack` last. `take` resolves to false when one of them was gone. Whatever was there at the call is then taken,
 * in the file where it was or in the one that it was packed into meanwhile.
 *
 * Resolves to false when packs kept vanishing: some objects may not be taken then.
 */
export async function takeObjectFiles(
  objects: string,
  take: (directory: string, names: readonly string[]) => Promise<boolean>,
): Promise<boolean> {
  // Loose objects first: one that is packed meanwhile is in a pack by the time the packs are listed.
  for (const fan of await namesIn(objects)) {
    if (!FAN_OUT.test(fan)) continue
    const names = (await namesIn(join(objects, fan))).filter((name) => LOOSE_OBJECT.test(name))
    if (names.length > 0) await take(fan, names)
  }
  for (let pass = 0; pass < PACK_PASSES; pass++) {
    const names = await namesIn(join(objects, 'pack'))
    // git names the index last: without it the pack is not complete, and nothing leads into it.
    const complete = new Set(names.filter((name) => name.endsWith('.idx')).map((name) => name.slice(0, -4)))
    const wanted = names.filter((name) => complete.has(PACK_FILE.exec(name)?.[1] ?? ''))
    if (await take('pack', wanted)) return true
  }
  return false
}
