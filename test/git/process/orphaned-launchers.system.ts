import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { removeOrphanedLaunchers } from '../../../src/git/process/orphaned-launchers.ts'
import { program } from '../../program.ts'

t.test('sockets of killed servers are removed, those in use or in creation are not', async (t) => {
  // The path of a socket must be short.
  const directory = await mkdtemp(join(tmpdir(), 'left-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  for (const name of ['one-live', 'one-left', 'one-young', 'one-begun', 'other-left']) {
    await mkdir(join(directory, name))
  }
  const live = createServer().listen(join(directory, 'one-live', 'socket'))
  t.teardown(() => live.close())
  await once(live, 'listening')
  const left = ['one-left', 'one-young', 'other-left'].map((name) => join(directory, name, 'socket'))
  const killed = spawn(process.execPath, [program('test/git/socket-holder'), ...left], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(killed.stdout, 'data')
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  const past = new Date(Date.now() - 3_600_000)
  for (const name of ['one-live', 'one-left', 'one-begun', 'other-left']) {
    await utimes(join(directory, name), past, past)
  }

  await removeOrphanedLaunchers(directory, 'one-')
  t.strictSame((await readdir(directory)).sort(), ['one-begun', 'one-live', 'one-young', 'other-left'])
  await removeOrphanedLaunchers(join(directory, 'none'), 'one-')
})
