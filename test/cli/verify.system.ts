import { once } from 'node:events'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startTestServer } from '../start-server.ts'
import { startMergelog } from './command-line.ts'

t.test('a signal ends mergelog verify, and no files are left', async (t) => {
  const DATA_DIR = t.testdir()
  const server = await startTestServer(t, { DATA_DIR })
  const TMPDIR = join(DATA_DIR, 'tmp')
  await mkdir(TMPDIR)
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    const child = startMergelog(t, ['verify'], { DATA_DIR: server.dataDir, TMPDIR })
    const ended = once(child, 'exit')
    let running = true
    ended.then(() => {
      running = false
    })
    // verify has started when its directory exists.
    while (running && !(await readdir(TMPDIR)).some((name) => name.startsWith('verify-')));
    child.kill(signal)
    t.strictSame(await ended, [code, null])
    t.notOk((await readdir(TMPDIR)).some((name) => name.startsWith('verify-')))
  }
})
