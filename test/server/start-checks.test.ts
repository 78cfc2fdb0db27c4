/**
 * A start on an unsuitable host prints the reason in one line.
 * In a process of its own: one that has started git before needs no place for it any more.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { requireGit } from '../../src/server/start-checks.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'

/** The output of a failing start, with a program as `git` that prints these words, or nothing. */
async function printed(t: Test, git?: string): Promise<string> {
  const dir = t.testdir()
  const bin = join(dir, 'bin')
  await mkdir(bin)
  if (git !== undefined) {
    await writeFile(join(bin, 'git'), `#!/bin/sh\necho ${git}\n`)
    await chmod(join(bin, 'git'), 0o755)
  }
  const child = spawn(process.execPath, [program('src/main')], {
    env: { ...PROGRAM_ENVIRONMENT, PATH: bin, DATA_DIR: join(dir, 'data'), PORT: '0', GRPC_PORT: '0' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.teardown(() => void child.kill('SIGKILL'))
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  t.equal(code, 1)
  return said
}

t.test('without git, a server does not start', async (t) => {
  t.match(
    await printed(t),
    /^mergelog: git can't be started: [^\n]*; install git 2\.39 or later, [^\n]*PATH\n$/,
  )
})

t.test('with a git that is too old, a server does not start', async (t) => {
  const said = await printed(t, 'git version 2.38.5')
  t.equal(said, 'mergelog: git 2.38.5 is too old: install 2.39 or later\n')
  t.match(await printed(t, 'git version 1.99.0'), /git 1\.99\.0 is too old/)
})

t.test('without a place for temporary files, a server does not start', async (t) => {
  const { TMPDIR } = process.env
  process.env.TMPDIR = '/dev/null'
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  })
  const message = /^TMPDIR must be a writable directory: ENOTDIR/
  await t.rejects(requireGit(), { name: 'OperatorError', message })
})
