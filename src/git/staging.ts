/** A staging area for new objects. They become part of the repository only when the work succeeds. */
import { randomUUID } from 'node:crypto'
import { mkdir, opendir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { flush } from '../disk.ts'
import { forEachConcurrently } from '../turns.ts'
import { intoFanOut, writeObject } from './loose-objects.ts'

const FAN_OUT = /^[0-9a-f]{2}$/
const LOOSE_OBJECT = /^[0-9a-f]{38}$/

export interface Staging {
  /** The environment for commands that read the repository's objects and write new objects here. */
  env: Readonly<Record<string, string>>
  /** Stores a commit. Returns its id. */
  writeCommit(content: Buffer): Promise<string>
  /** Moves all loose objects except these into the repository. They are on disk when this resolves. */
  keepAllBut(unwanted: ReadonlySet<string>): Promise<void>
}

/**
 * Runs `work` with a staging area and removes the area afterwards. Its name is like that of git's half-received
 * pushes, so `removeLeftovers` also removes what a crash left.
 */
export async function withStaging<T>(dir: string, work: (staging: Staging) => Promise<T>): Promise<T> {
  const objects = join(dir, 'objects')
  const directory = join(objects, `tmp_objdir-staging-${randomUUID()}`)
  await mkdir(directory)
  try {
    return await work({
      env: { GIT_OBJECT_DIRECTORY: directory, GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(objects) },
      writeCommit: (content) => writeObject(directory, 'commit', content),
      keepAllBut: (unwanted) => moveLooseObjects(directory, objects, unwanted),
    })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Quotes a path for a list in which git separates paths by colons. */
export function quotedPath(path: string): string {
  return `"${path.replace(/[\\"]/g, '\\$&')}"`
}

async function moveLooseObjects(from: string, to: string, unwanted: ReadonlySet<string>): Promise<void> {
  const changed = new Set([to])
  for await (const { name: fan } of await opendir(from)) {
    if (!FAN_OUT.test(fan)) continue
    const moves: string[] = []
    for await (const { name } of await opendir(join(from, fan))) {
      if (LOOSE_OBJECT.test(name) && !unwanted.has(`${fan}${name}`)) moves.push(name)
    }
    if (moves.length === 0) continue
    changed.add(join(to, fan))
    await forEachConcurrently(moves, async (name) => {
      await flush(join(from, fan, name))
      await intoFanOut(join(to, fan), () => rename(join(from, fan, name), join(to, fan, name)))
    })
  }
  for (const directory of changed) await flush(directory)
}
