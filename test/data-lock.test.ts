import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { DataDirInUse, lockDataDir } from '../src/data-lock.ts'

const locker = `
  const { lockDataDir } = await import(process.argv[1])
  lockDataDir(process.argv[2])
  console.log('locked')
  setInterval(() => {}, 1000)
`
const module = new URL('../src/data-lock.ts', import.meta.url).href

t.test('a data directory belongs to one server until it ends, however it ends', async (t) => {
  const dir = t.testdir()
  const first = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', locker, module, dir])
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
