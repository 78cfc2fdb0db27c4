import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DataDirInUse, DataDirUnusable, lockDataDir, STOP_THE_SERVER } from '../../src/storage/data-lock.ts'
import { asNobody } from '../cli/as-nobody.ts'
import { program } from '../program.ts'

const LOCK_HOLDER = program('test/lock-holder')

t.test('a data directory belongs to one server until the server ends or is killed', async (t) => {
  const dir = t.testdir()
  const first = spawn(process.execPath, [LOCK_HOLDER, dir])
  t.teardown(() => first.kill('SIGKILL'))
  await once(first.stdout, 'data')
  t.throws(() => lockDataDir(dir), DataDirInUse)
  first.kill('SIGKILL')
  await once(first, 'close')
  const release = lockDataDir(dir)
  t.throws(() => lockDataDir(dir), DataDirInUse)
  release()
  lockDataDir(dir)()
})

t.test('servers with a shared lock block an exclusive lock until the last one ends', async (t) => {
  const dir = t.testdir()
  const other = spawn(process.execPath, [LOCK_HOLDER, dir, 'shared'])
  t.teardown(() => other.kill('SIGKILL'))
  await once(other.stdout, 'data')
  const release = lockDataDir(dir, 'shared')
  const again = lockDataDir(dir, 'shared')
  const message = /^DATA_DIR: another process(?: \(pid \d+\))? uses /
  t.throws(() => lockDataDir(dir), { name: 'DataDirInUse', message })
  again()
  release()
  t.throws(() => lockDataDir(dir), { name: 'DataDirInUse', message }, 'the other process still shares it')
  lockDataDir(dir, 'shared')()
  other.kill('SIGKILL')
  await once(other, 'close')
  const alone = lockDataDir(dir)
  t.throws(
    () => lockDataDir(dir, 'shared'),
    { name: 'DataDirInUse', message },
    'who needs it alone has it alone',
  )
  alone()
  lockDataDir(dir, 'shared')()
  t.same(await readdir(dir), ['lock.db'])
})

t.test('a directory that cannot be locked gives another error than one that is in use', async (t) => {
  const dir = t.testdir()
  t.throws(() => lockDataDir(join(dir, 'none')), DataDirUnusable)
  const file = join(dir, 'lock.db')
  await mkdir(file)
  t.throws(() => lockDataDir(dir), new DataDirUnusable(`${file} cannot be locked: it cannot be opened`))
  t.same(await readdir(dir), ['lock.db'])
  await rmdir(file)
  await writeFile(file, '')
  await chmod(file, 0o444)
  const locking = asNobody(async () => lockDataDir(dir))
  await t.rejects(
    locking,
    DataDirUnusable,
    'a read-only lock file is refused: SQLite would silently take no lock',
  )
})

t.test('start errors name the process that holds the directory, and the remedy', async (t) => {
  const dir = t.testdir()
  const other = spawn(process.execPath, [LOCK_HOLDER, dir])
  t.teardown(() => other.kill('SIGKILL'))
  await once(other.stdout, 'data')
  // Only Linux reports the process.
  const pid = process.platform === 'linux' ? ` (pid ${other.pid})` : ''
  const message = `DATA_DIR: another process${pid} uses ${dir}`
  t.throws(() => lockDataDir(dir), new DataDirInUse(message))
  const advised = new DataDirInUse(`${message}: stop the server first`)
  t.throws(() => lockDataDir(dir, 'alone', STOP_THE_SERVER), advised)
})
