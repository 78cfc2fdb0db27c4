/** In a process of its own: it changes PATH. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createDataDir, createDirectories } from '../../src/config/create-directories.ts'
import { asNobody } from '../cli/as-nobody.ts'

t.test('a path is created with its parent directories, and may exist already', async (t) => {
  const path = join(t.testdir(), 'a', 'b')
  await createDirectories(path)
  await createDirectories(path)
})

t.test('start errors name the setting and the remedy: DATA_DIR is not a directory', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file')
  const refused = { name: 'ConfigError', setting: 'DATA_DIR' }
  const message = `DATA_DIR cannot be used: ${file} is not a directory; or set DATA_DIR to another directory`
  await t.rejects(createDataDir(file), { ...refused, message })
  await t.rejects(createDataDir(join(file, 'data')), { ...refused, message })
})

t.test('start errors name the setting and the remedy: DATA_DIR is not writable', async (t) => {
  const dir = t.testdir()
  const mine = join(dir, 'mine')
  await mkdir(mine, { mode: 0o555 })
  const user = process.geteuid?.() === 0 ? 65534 : process.geteuid?.()
  const message = new RegExp(
    `^DATA_DIR cannot be used: the user ${user} may not write in \\S+: allow it \\(chown ${user} \\S+\\); or set`,
  )
  for (const path of [mine, join(mine, 'data')]) {
    await t.rejects(
      asNobody(async () => createDataDir(path)),
      { setting: 'DATA_DIR', message },
      path,
    )
  }
})

t.test('start errors name the setting and the remedy: DATA_DIR on a file system that hangs', async (t) => {
  const { PATH } = process.env
  const bin = t.testdir()
  // It hangs like a file system whose disk is gone.
  await writeFile(join(bin, 'mkdir'), '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 })
  process.env.PATH = `${bin}:${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const path = join(bin, 'data')
  const message = `DATA_DIR cannot be used: ${path} is on a file system that does not answer: check its disk or network; or set DATA_DIR to another directory`
  await t.rejects(createDataDir(path, 1), { setting: 'DATA_DIR', message })
})

t.test(
  'a DATA_DIR in /proc is refused and does not hang',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const message =
      /^DATA_DIR cannot be used: \/proc\/foo cannot be created in \/proc: No such file or directory/
    await t.rejects(createDataDir('/proc/foo'), { setting: 'DATA_DIR', message })
    await t.rejects(createDirectories('/proc/foo/bar'), { name: 'PathProblem' })
  },
)
