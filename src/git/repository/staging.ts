/** A staging area for new objects, which become part of the repository only when the work succeeds. */
import { randomUUID } from 'node:crypto'
import { mkdir, opendir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { flush, flushNames } from '../../storage/disk.ts'
import { intoFanOut, writeObject } from '../objects/loose-objects.ts'
import type { GitConfig } from '../process/environment.ts'
import { gitOutput } from '../process/run.ts'

const FAN_OUT = /^[0-9a-f]{2}$/
const LOOSE_OBJECT = /^[0-9a-f]{38}$/

export interface Staging {
  /** The directory of objects. */
  directory: string
  /** The environment for commands that read the repository's objects and write new objects here. */
  env: Readonly<Record<string, string>>
  /** Stores a commit. Returns its id. */
  writeCommit(content: Buffer): Promise<string>
  /** Moves all loose objects except `unwanted` into the repository. They are on disk when this resolves. */
  keepAllBut(unwanted: ReadonlySet<string>): Promise<void>
}

/** Staged objects are flushed when they are kept. */
export const UNFLUSHED: GitConfig = [['core.fsync', 'none']]

/** Writes a temporary commit for a merge: git merges commits, and uses their parent as the base. */
export function scaffoldCommit(tree: string, parent: string | undefined): Buffer {
  const nobody = 'nobody <> 0 +0000'
  const parents = parent === undefined ? '' : `parent ${parent}\n`
  return Buffer.from(`tree ${tree}\n${parents}author ${nobody}\ncommitter ${nobody}\n\n`)
}

/**
 * Runs `work` with a staging area, which is removed afterwards. Its name is like git's quarantines, so `removeLeftovers`
 * also removes the area of a crashed process.
 */
export async function withStaging<T>(dir: string, work: (staging: Staging) => Promise<T>): Promise<T> {
  const objects = join(dir, 'objects')
  const directory = join(objects, `tmp_objdir-staging-${randomUUID()}`)
  await mkdir(directory)
  try {
    return await work({
      directory,
      env: { GIT_OBJECT_DIRECTORY: directory, GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(objects) },
      writeCommit: (content) => writeObject(directory, 'commit', content),
      keepAllBut: (unwanted) => moveLooseObjects(directory, objects, unwanted),
    })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Time limit for a long history, in milliseconds. */
const PACKING_TIMEOUT = 30 * 60_000

/**
 * Writes objects of the repository `fromDir` into `intoDir` as one pack, which appears atomically and is on disk when this
 * resolves. `wanted` is the input of `git pack-objects --revs`. git works in a staging area, because it leaves an
 * unfinished pack when it fails.
 * @throws RepositoryMissing, GitUnavailable, GitFailed
 */
export async function copyAsPack(fromDir: string, intoDir: string, wanted: string): Promise<void> {
  const objects = join(intoDir, 'objects')
  await withStaging(intoDir, async ({ directory }) => {
    const from = join(directory, 'pack')
    await mkdir(from)
    await gitOutput(['pack-objects', '-q', '--revs', '--delta-base-offset', join(from, 'pack')], {
      dir: intoDir,
      input: wanted,
      env: {
        GIT_OBJECT_DIRECTORY: directory,
        GIT_ALTERNATE_OBJECT_DIRECTORIES: [objects, join(fromDir, 'objects')].map(quotedPath).join(':'),
      },
      timeout: PACKING_TIMEOUT,
    })
    // The index makes a pack visible, so it is moved last.
    const names = (await readdir(from)).filter((name) => name.startsWith('pack-'))
    const last = (name: string) => Number(name.endsWith('.idx'))
    for (const name of names.sort((one, other) => last(one) - last(other)))
      await rename(join(from, name), join(objects, 'pack', name))
    await flush(join(objects, 'pack'))
  })
}

/** Quotes a path for git's lists, which separate paths by colons. */
export function quotedPath(path: string): string {
  return `"${path.replace(/[\\"]/g, '\\$&')}"`
}

async function moveLooseObjects(from: string, to: string, unwanted: ReadonlySet<string>): Promise<void> {
  const changed: string[] = []
  for await (const { name: fan } of await opendir(from)) {
    if (!FAN_OUT.test(fan)) continue
    const moves: string[] = []
    for await (const { name } of await opendir(join(from, fan))) {
      if (LOOSE_OBJECT.test(name) && !unwanted.has(`${fan}${name}`)) moves.push(name)
    }
    if (moves.length === 0) continue
    changed.push(join(to, fan))
    await forEachConcurrently(moves, async (name) => {
      await flush(join(from, fan, name))
      await intoFanOut(join(to, fan), () => rename(join(from, fan, name), join(to, fan, name)))
    })
  }
  for (const directory of changed) await flush(directory)
  await flushNames(changed)
}
