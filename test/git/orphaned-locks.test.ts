// In a process of its own: it watches all git processes of the process.
/** Locks of killed git processes do not block later commands, and git leaves as few as possible. */

import { existsSync, writeFileSync } from 'node:fs'
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { watchProcesses } from '../../src/git/process/process-watch.ts'
import { git } from '../../src/git/process/run.ts'
import { readRefs, updateRef, updateRefs } from '../../src/git/refs/refs.ts'
import { maintainRepository } from '../../src/git/repository/maintenance.ts'
import { createRepository, setDefaultBranch } from '../../src/git/repository/repository.ts'
import { until } from '../until.ts'
import { commit, initWork, userGit } from './client.ts'
import { startGitServer } from './git-server.ts'

const MAIN = 'refs/heads/main'
const SHARED = ['HEAD.lock', 'packed-refs.lock', 'packed-refs.new']

async function setUp(t: Test) {
  const root = t.testdir()
  const dir = `${root}/one.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const a = await commit(dir, 'a', { f: '1' }, [])
  const b = await commit(dir, 'b', { f: '2' }, [a])
  /** Creates them as a killed process leaves them, `ago` milliseconds before now. */
  async function leave(names: readonly string[], ago = 60_000): Promise<void> {
    const at = new Date(Date.now() - ago)
    for (const name of names) {
      await mkdir(dirname(`${dir}/${name}`), { recursive: true })
      await writeFile(`${dir}/${name}`, '')
      await utimes(`${dir}/${name}`, at, at)
    }
  }
  const left = async () =>
    (await readdir(dir, { recursive: true })).filter((name) => /\.(lock|new)$/.test(name))
  return { root, dir, a, b, leave, left }
}

t.test('refs are moved, created and deleted despite the locks of a killed process', async (t) => {
  const { dir, a, b, leave, left } = await setUp(t)
  const x = 'refs/heads/x'
  const inTurn = (ref: string) => (ref.startsWith('refs/pull/') ? [] : SHARED)
  const steps: [ref: string, from: string | null, to: string | null][] = [
    [MAIN, null, a],
    [MAIN, a, b],
    [x, null, a],
    [x, a, b],
    [x, b, null],
    ['refs/pull/1/head', null, a],
    ['refs/pull/1/head', a, b],
  ]
  for (const [ref, from, to] of steps) {
    await leave([...inTurn(ref), `${ref}.lock`])
    t.equal(await updateRef(dir, ref, { from, to }), 'moved', `${ref} from ${from} to ${to}`)
    await userGit(dir, ['pack-refs', '--all']).catch(() => {})
  }
  await leave([...SHARED, `${x}.lock`, `${MAIN}.lock`])
  const renamed = [
    { ref: MAIN, from: b, to: null },
    { ref: x, from: null, to: b },
  ]
  t.equal(await updateRefs(dir, renamed), 'moved')
  await leave(['HEAD.lock'])
  await setDefaultBranch(dir, 'x')
  t.equal(await userGit(dir, ['symbolic-ref', 'HEAD']), x)
  t.same(await left(), [])
})

t.test('many locks of a push are removed together', async (t) => {
  const { dir, a, leave, left } = await setUp(t)
  const refs = Array.from({ length: 150 }, (_, i) => `refs/tags/v${i}`)
  await leave(refs.map((ref) => `${ref}.lock`))
  t.equal(
    await updateRefs(
      dir,
      refs.map((ref) => ({ ref, from: null, to: a })),
    ),
    'moved',
  )
  t.same(await left(), [])
})

t.test('a push moves, creates and deletes branches despite the locks of a killed process', async (t) => {
  const { root, dir, leave, left } = await setUp(t)
  const server = await startGitServer(root)
  t.teardown(() => server.close())
  const work = `${root}/work`
  await initWork(work)
  await userGit(work, ['remote', 'add', 'origin', `${server.url}/one.git`])
  const a = await commit(work, 'a', { f: '1' }, [])
  const b = await commit(work, 'b', { f: '2' }, [a])
  const refs = [MAIN, 'refs/heads/x']
  for (const words of [
    refs.map((ref) => `${a}:${ref}`),
    refs.map((ref) => `${b}:${ref}`),
    [':refs/heads/x'],
  ]) {
    await leave([...SHARED, ...refs.map((ref) => `${ref}.lock`)])
    await userGit(work, ['push', '-q', 'origin', ...words])
    await userGit(dir, ['pack-refs', '--all']).catch(() => {})
  }
  t.same(
    await readRefs(dir, refs),
    new Map([
      [MAIN, b],
      ['refs/heads/x', null],
    ]),
  )
  t.same(await left(), [`${MAIN}.lock`], 'of what the last push does not name')
})

t.test('a lock that may be in use delays the command', async (t) => {
  const { dir, a, b, leave } = await setUp(t)
  await updateRef(dir, MAIN, { from: null, to: a })
  const lock = `${dir}/${MAIN}.lock`
  await leave([`${MAIN}.lock`], -1000)
  const moving = updateRef(dir, MAIN, { from: a, to: b })
  const moved = until('main has moved', async () => (await readRefs(dir, [MAIN])).get(MAIN) === b)
  t.ok(existsSync(lock))
  await rm(lock)
  t.equal(await moving, 'moved')
  await moved
})

t.test('refs are packed after a killed maintenance, and a stopping server waits for that', async (t) => {
  const { dir, a, leave, left } = await setUp(t)
  const refs = Array.from({ length: 1000 }, (_, i) => `refs/pull/${i + 1}/head`)
  await userGit(dir, ['update-ref', '--stdin'], refs.map((ref) => `create ${ref} ${a}\n`).join(''))
  await leave(['packed-refs.lock', 'packed-refs.new'])
  const stopping = new AbortController()
  const exits: unknown[] = []
  const lock = `${dir}/packed-refs.lock`
  const unwatch = watchProcesses((command) => {
    if (command !== 'pack-refs') return () => {}
    // git waits for it, so the stop comes while it works.
    writeFileSync(lock, '')
    stopping.abort(new Error('stopping'))
    return (exit) => exits.push(exit)
  })
  t.teardown(unwatch)
  const withRefLock = async (work: () => Promise<void>) => {
    const working = work()
    await until('git waits', () => stopping.signal.aborted)
    await rm(lock)
    await working
  }
  await t.rejects(maintainRepository(dir, { kind: 'full', withRefLock, signal: stopping.signal }), {
    message: 'stopping',
  })
  t.same(exits, [{ code: 0, signal: null }])
  t.ok(existsSync(`${dir}/packed-refs`))
  t.same(await left(), [])
})

t.test('git removes its own locks when it is ended', async (t) => {
  const { dir, a, leave, left } = await setUp(t)
  await leave(['refs/heads/y.lock'], -1000)
  const stopping = new AbortController()
  const input = ['x', 'y'].map((name) => `create refs/heads/${name} ${a}\n`).join('')
  const config = [['core.filesRefLockTimeout', '-1']] as const
  const running = git(['update-ref', '--stdin'], { dir, input, config, signal: stopping.signal })
  await until('git has the first lock', () => existsSync(`${dir}/refs/heads/x.lock`))
  stopping.abort(new Error('stopping'))
  await t.rejects(running, { message: 'stopping' })
  t.same(await left(), ['refs/heads/y.lock'])
})
