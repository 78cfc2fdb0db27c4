// In a process of its own: the hook is installed once for each process, and TMPDIR says where.
/** The second check of a push, by a hook of git: `src/git/push/push-hook.ts`. */
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../src/config/config.ts'
import { GitUnavailable } from '../../../src/git/process/errors.ts'
import { installPushHook } from '../../../src/git/push/push-hook.ts'
import { listRefs, resolveRef } from '../../../src/git/refs/refs.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { startServer } from '../../../src/server/server.ts'
import { until } from '../../until.ts'
import { commit, initWork, tryGit } from '../client.ts'
import { type GitServerHooks, gitProcesses, runExclusive, startGitServer } from '../git-server.ts'
import { startGitServerProcess } from '../git-server-process.ts'

const MAIN = 'refs/heads/main'

async function repositoryIn(t: Test) {
  const root = await mkdtemp(join(tmpdir(), 'mergelog-git-'))
  t.teardown(() => rm(root, { recursive: true, force: true, maxRetries: 3 }))
  const dir = `${root}/one.git`
  const work = `${root}/work`
  await createRepository(dir, { defaultBranch: 'main' })
  await initWork(work)
  const a = await commit(work, 'a', { f: '1' }, [])
  const b = await commit(work, 'b', { f: '2' }, [a])
  return { root, dir, work, a, b }
}

async function setUp(t: Test, hooks: GitServerHooks) {
  const made = await repositoryIn(t)
  const server = await startGitServer(made.root, hooks)
  t.teardown(() => server.close())
  const push = (...refspecs: string[]) => tryGit(made.work, ['push', `${server.url}/one.git`, ...refspecs])
  return { ...made, server, push }
}

t.test('the second check runs when git has the objects and has moved no ref', async (t) => {
  const seen: unknown[] = []
  const { dir, server, a, b, push } = await setUp(t, {
    async checkAgain(commands) {
      seen.push([commands, await listRefs(dir)])
      return new Map()
    },
  })
  t.match(await push(`${a}:${MAIN}`), { code: 0 })
  t.match(await push(`${b}:${MAIN}`, `${a}:refs/heads/side`), { code: 0 })
  t.match(await push(':refs/heads/side'), { code: 0 }, 'also for a push without objects')
  const [first, second, third] = seen
  t.strictSame(first, [[{ ref: MAIN, from: null, to: a }], []])
  t.match(second, [{ length: 2 }, [{ ref: MAIN, sha: a }]])
  t.match(third, [[{ ref: 'refs/heads/side', from: a, to: null }], { length: 2 }])
  t.strictSame(await listRefs(dir), [{ ref: MAIN, sha: b }])
  t.equal(server.recorded.length, 4)
})

t.test('one reason refuses the whole push, and the objects are removed', async (t) => {
  const { root, dir, server, a, b, push } = await setUp(t, {
    checkAgain: async () => new Map([[MAIN, 'main is protected: ask Ann']]),
  })
  const refused = await push(`${a}:${MAIN}`, `${b}:refs/heads/free`)
  t.equal(refused.code, 1)
  t.match(refused.stderr, /main \(main is protected: ask Ann\)/)
  t.match(refused.stderr, /free \(not pushed, because another ref of this push was refused\)/)
  t.strictSame(await listRefs(dir), [])
  t.strictSame(await readdir(`${dir}/objects`), ['info', 'pack'])
  t.strictSame(server.recorded, [])
  t.strictSame(await readdir(`${root}/pending`), [])
})

t.test('a failing check moves no ref', async (t) => {
  const { root, dir, server, a, push } = await setUp(t, {
    checkAgain: () => Promise.reject(new Error('no log')),
  })
  t.match(await push(`${a}:${MAIN}`), { code: 1, stderr: /500/ })
  t.strictSame(await listRefs(dir), [])
  t.strictSame(server.recorded, [])
  t.strictSame(await readdir(`${root}/pending`), [])
})

t.test('a push that cannot get the lock moves no ref', async (t) => {
  let decisions = 0
  const { root, dir, server, a, push } = await setUp(t, {
    runExclusive: () => Promise.reject(new Error('no turns')),
    async checkAgain() {
      decisions += 1
      return new Map()
    },
  })
  t.match(await push(`${a}:${MAIN}`), { code: 1, stderr: /500/ })
  t.equal(decisions, 0)
  t.strictSame(await listRefs(dir), [])
  t.strictSame(await readdir(`${dir}/objects`), ['info', 'pack'])
  t.strictSame(server.recorded, [])
  t.strictSame(await readdir(`${root}/pending`), [])
})

t.test('the lock is held from the second check to the record', async (t) => {
  const order: string[] = []
  const others: Promise<void>[] = []
  const made = await setUp(t, {
    async checkAgain() {
      order.push(`decided: ${await resolveRef(made.dir, MAIN)}`)
      const work = async () => {
        order.push(`other: ${await resolveRef(made.dir, MAIN)}`)
      }
      others.push(runExclusive(made.dir, work))
      return new Map()
    },
    async record() {
      order.push('recorded')
    },
  })
  t.match(await made.push(`${made.a}:${MAIN}`), { code: 0 })
  await Promise.all(others)
  t.strictSame(order, ['decided: null', 'recorded', `other: ${made.a}`])
})

t.test('when the server dies before its decision, git moves no ref', async (t) => {
  const { root, dir, work, a } = await repositoryIn(t)
  const server = await startGitServerProcess(root, 'never decides')
  t.teardown(() => server.kill())
  const asked = once(server.child, 'message')
  const pushing = tryGit(work, ['push', `${server.url}/one.git`, `${a}:${MAIN}`])
  t.strictSame(await asked, ['asked', undefined])
  await server.kill()
  t.not((await pushing).code, 0)
  await until('no git process is left', async () => (await gitProcesses(dir)).length === 0)
  t.strictSame(await listRefs(dir), [])
})

t.test('line 9: the hook is beside the repositories, and is created again when it is missing', async (t) => {
  let asked = 0
  const { root, dir, a, b, push } = await setUp(t, {
    async checkAgain() {
      asked += 1
      return new Map()
    },
  })
  t.match(await push(`${a}:${MAIN}`), { code: 0 })
  t.equal((await readdir(`${root}/hooks`)).length, 1)
  await rm(`${root}/hooks`, { recursive: true })
  t.match(await push(`${b}:${MAIN}`), { code: 0 })
  t.equal(asked, 2, 'no push goes by')
  t.strictSame(await listRefs(dir), [{ ref: MAIN, sha: b }])
})

t.test('line 9: where no file can be executed, the hook is in TMPDIR, or the start fails', async (t) => {
  const { root } = await repositoryIn(t)
  const before = process.env.TMPDIR
  t.teardown(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  })
  // A file at the place of the directory: the hook cannot be there.
  await writeFile(`${root}/hooks`, '')
  await mkdir(`${root}/temporary`)
  process.env.TMPDIR = `${root}/temporary`
  const hooks = await installPushHook(root)
  t.ok(hooks.startsWith(`${root}/temporary/`))
  t.equal(await installPushHook(root), hooks, 'once for each process')
  process.env.TMPDIR = `${root}/absent`
  await rm(hooks, { recursive: true })
  await t.rejects(installPushHook(root), GitUnavailable)
  const config = loadConfig({ DATA_DIR: `${root}/data`, PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'silent' })
  await mkdir(`${root}/data/git`, { recursive: true })
  await writeFile(`${root}/data/git/hooks`, '')
  await t.rejects(startServer(config, pino({ level: 'silent' })), {
    name: 'Error',
    message: /^DATA_DIR cannot be used: no file can be executed in .*\/data\/git or .*; set TMPDIR to/,
  })
})
