/**
 * What every start makes in a data directory before it opens its stores. A start that found no server leaves only this:
 * it holds nothing of anyone, and a restore or an import may fill such a directory.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { FORMAT_FILE } from '../data-format.ts'
import { namesIn } from '../disk.ts'
import { HOOKS } from '../git/push-hook.ts'

/** Whether this name directly in a data directory holds only that. */
export async function isMadeByStarts(dataDir: string, name: string): Promise<boolean> {
  if (name === FORMAT_FILE) return true
  return name === 'git' && (await namesIn(join(dataDir, name))).every((inside) => inside === HOOKS)
}

/** Makes room for the directories that take their places. Each start makes the hooks again. */
export const makeWay = (dataDir: string): Promise<void> =>
  rm(join(dataDir, 'git', HOOKS), { recursive: true, force: true })
