// In a process of its own: it changes TMPDIR.
import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import t from 'tap'
import {
  makeTemporaryDirectory,
  removeOrphanedTemporaryDirectories,
} from '../../../src/git/process/temporary-directories.ts'

t.test(
  'a temporary directory of a killed server is removed a day later; foreign and young ones stay',
  async (t) => {
    const place = await mkdtemp(join(tmpdir(), 'place-'))
    t.teardown(() => rm(place, { recursive: true, force: true }))
    const before = process.env.TMPDIR
    process.env.TMPDIR = place
    t.teardown(() => {
      if (before === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = before
    })
    const [left, young] = [await makeTemporaryDirectory(), await makeTemporaryDirectory()]
    const others = await mkdtemp(join(place, 'git-'))
    const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000)
    for (const path of [left, others]) await utimes(path, twoDaysAgo, twoDaysAgo)

    await removeOrphanedTemporaryDirectories()
    t.strictSame((await readdir(place)).sort(), [basename(young), basename(others)].sort())
  },
)
