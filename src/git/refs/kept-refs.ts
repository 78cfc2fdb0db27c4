/**
 * Hidden refs, named by their objects: what branches, tags and pull requests have left, so that maintenance does not remove
 * it. Clients do not see them, and an object that only they reach counts as unreachable.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn, unlessMissing } from '../../storage/disk.ts'
import { tipsOf, unreachedAmong } from '../commits/reachable.ts'
import { GitUnavailable } from '../process/errors.ts'
import { isObjectId } from './names.ts'
import { readRefs, updateRefs } from './refs.ts'

const KEPT = 'refs/mergelog/kept/'
/** Another writer may make one of the refs at the same time. */
const MAX_TRIES = 5
const PACKED = /^[0-9a-f]{40} refs\/mergelog\/kept\/([0-9a-f]{40})$/gm

/**
 * Makes a hidden ref of each of these objects that exists and that no other ref reaches.
 * @throws the errors of git; then none was made
 */
export async function keepUnreached(dir: string, ids: Iterable<string>): Promise<void> {
  const unreached = [...(await unreachedAmong(dir, ids, await tipsOf(dir)))]
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const known = await readRefs(
      dir,
      unreached.map((id) => `${KEPT}${id}`),
    )
    const made = [...known].flatMap(([ref, id]) =>
      id === null ? [{ ref, from: null, to: ref.slice(KEPT.length) }] : [],
    )
    if ((await updateRefs(dir, made)) === 'moved') return
  }
  throw new GitUnavailable('the refs of objects that are kept cannot be made')
}

/** The hidden refs of a repository, by name. Starts no process. */
export async function keptRefs(dir: string): Promise<Map<string, string>> {
  const packed = (await unlessMissing(readFile(join(dir, 'packed-refs'), 'latin1'))) ?? ''
  const ids = [...packed.matchAll(PACKED)].map(([, id = '']) => id)
  for (const name of await namesIn(join(dir, KEPT))) if (isObjectId(name)) ids.push(name)
  return new Map(ids.map((id) => [`${KEPT}${id}`, id]))
}
