import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { gitEnvironment } from '../../../src/git/process/environment.ts'
import { refCommandsIn } from '../../../src/git/process/orphaned-processes.ts'
import { openPushJournal } from '../../../src/git/push/push-journal.ts'
import { listRefs, resolveRef, updateRef } from '../../../src/git/refs/refs.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { exists } from '../../../src/storage/disk.ts'
import { until } from '../../until.ts'
import { commit, initWork, pushBody, tryGit, userGit } from '../client.ts'
import { gitProcesses } from '../git-server.ts'
import { type GitServerProcess, startGitServerProcess } from '../git-server-process.ts'

const MAIN = 'refs/heads/main'

/** A repository, and a work tree with one commit. Optionally with a server in its own process. */
async function setUp(t: Test) {
  const root = await mkdtemp(join(tmpdir(), 'mergelog-git-'))
  const dir = `${root}/one.git`
  const work = `${root}/work`
  const servers: GitServerProcess[] = []
  t.teardown(async () => {
    for (const server of servers) await server.kill()
    await rm(root, { recursive: true, force: true })
  })
  await createRepository(dir, { defaultBranch: 'main' })
  await initWork(work)
  const a = await commit(work, 'a', { f: '1' }, [])
  return {
    root,
    dir,
    work,
    a,
    pending: `${root}/pending`,
    async serve(recording: 'works' | 'never records') {
      const server = await startGitServerProcess(root, recording)
      servers.push(server)
      return server
    },
  }
}

/** Sends the beginning of a request, and keeps the connection open. Resolves when it was sent. */
function send(url: string, body: Buffer, length: number): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(`POST /one.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`)
  return new Promise((resolve) => socket.write(body, () => resolve()))
}

t.test(
  'a marker exists until it is finished; markers of running pushes are not listed as unfinished',
  async (t) => {
    const directory = `${t.testdir()}/a/b`
    const journal = await openPushJournal(directory)
    const one = await journal.begin('1', 12345)
    const two = await journal.begin('2', 12345)
    t.same(await journal.unfinished(), [])
    journal.abandon(one)
    t.same(await journal.unfinished(), [one])
    await journal.finish(one)
    t.same(await journal.unfinished(), [])

    const next = await openPushJournal(directory)
    t.same(await next.unfinished(), [two], 'another process finds the marker of a running push')
    await next.finish(two)
    await next.finish(two)
    t.same(await readdir(directory), [])
    await t.rejects(journal.begin('../x', 1), { name: 'TypeError' })
  },
)

t.test('an incomplete marker still names its repository', async (t) => {
  const { dir, pending } = await setUp(t)
  await mkdir(pending)
  const id = '0b9a1f3e-53f5-4f7d-b3c7-0f2ae1a4f2c1'
  for (const [key, content] of [
    ['1', ''],
    ['2', '{"key":"2","pid":'],
    ['3', '{"pid":"1"}'],
    ['4', 'null'],
    ['5', '{"pid":1}'],
  ]) {
    await writeFile(`${pending}/${key}-${id}.json`, content ?? '')
  }
  await writeFile(`${pending}/notes.txt`, 'not a marker')
  const journal = await openPushJournal(pending)
  const markers = await journal.unfinished()
  t.same(
    markers.map(({ key }) => key),
    ['1', '2', '3', '4', '5'],
  )
  for (const marker of markers) await journal.settle(marker, dir)
})

t.test(
  'killed after git moved the ref and before the move was recorded: recovery finds the ref',
  async (t) => {
    const { dir, work, a, pending, serve } = await setUp(t)
    const server = await serve('never records')
    const pushing = tryGit(work, ['push', `${server.url}/one.git`, `${a}:${MAIN}`])
    await until('main has moved', async () => (await resolveRef(dir, MAIN)) === a)
    await server.kill()
    t.not((await pushing).code, 0, 'the client got no success')

    const journal = await openPushJournal(pending)
    const [marker, ...others] = await journal.unfinished()
    t.same(others, [])
    if (marker === undefined) throw new Error('there is no marker')
    t.equal(marker.key, 'one')
    await journal.settle(marker, dir)
    t.same(await gitProcesses(dir), [])
    t.same(await listRefs(dir), [{ ref: MAIN, sha: a }])
    await journal.finish(marker)
    t.same(await readdir(pending), [])
  },
)

t.test('killed while the pack arrives: git has not begun, and no file is left', async (t) => {
  const { dir, work, a, pending, serve } = await setUp(t)
  const server = await serve('works')
  const body = await pushBody(work, MAIN, a)
  await send(server.url, body.subarray(0, -20), body.length)
  await server.kill()

  t.same(await (await openPushJournal(pending)).unfinished(), [])
  t.same(await gitProcesses(dir), [])
  t.same(await listRefs(dir), [])
  t.same(await readdir(`${dir}/objects`), ['info', 'pack'])
})

t.test(
  'killed while git is about to move the ref: recovery waits for git, and then reads the refs',
  async (t) => {
    const { dir, work, a, pending, serve } = await setUp(t)
    const server = await serve('works')
    // A lock that looks longer in use than the wait before git moves the ref. Then git waits for it, too.
    await writeFile(`${dir}/refs/heads/main.lock`, '')
    const later = new Date(Date.now() + 4000)
    await utimes(`${dir}/refs/heads/main.lock`, later, later)
    const body = await pushBody(work, MAIN, a)
    await send(server.url, body, body.length)
    await until('git has the objects', async () => (await tryGit(dir, ['cat-file', '-e', a])).code === 0)
    t.equal((await gitProcesses(dir)).length, 1, 'git waits for the lock')
    await server.kill()

    const journal = await openPushJournal(pending)
    const [marker] = await journal.unfinished()
    if (marker === undefined) throw new Error('there is no marker')
    await journal.settle(marker, dir)
    t.same(await gitProcesses(dir), [])
    t.equal(await resolveRef(dir, MAIN), null, 'git gave up on the lock')
    t.equal(await updateRef(dir, MAIN, { from: null, to: a }), 'moved', 'the lock is gone')
  },
)

t.test('a git command that outlived its server moves no ref after recovery has read the refs', async (t) => {
  const { dir, work, a, pending } = await setUp(t)
  await userGit(dir, ['fetch', '-q', work, a])
  const before = await openPushJournal(pending)
  await before.begin('one', 0)
  // git waits for this lock while its server dies.
  await writeFile(`${dir}/refs/heads/main.lock`, '')
  const child = spawn('git', ['update-ref', '--no-deref', '--stdin', '-z'], {
    env: { ...gitEnvironment(), GIT_DIR: dir },
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin.end(`update ${MAIN}\0${a}\0${'0'.repeat(40)}\0`)
  await until('git runs', async () => (await refCommandsIn(dir)).length === 1)
  t.same(await refCommandsIn(`${dir}2`), [], 'of another repository')

  const journal = await openPushJournal(pending)
  const [marker] = await journal.unfinished()
  if (marker === undefined) throw new Error('there is no marker')
  await journal.settle(marker, dir)
  t.same(await refCommandsIn(dir), [])
  t.equal(await resolveRef(dir, MAIN), null, 'git gave up on the lock')
  t.equal(await updateRef(dir, MAIN, { from: null, to: a }), 'moved', 'the lock is gone')
})

t.test('recovery that finds a git command does not touch the incoming objects of pushes', async (t) => {
  const { dir, pending } = await setUp(t)
  const journal = await openPushJournal(pending, { timeout: 0 })
  // Its input stays open, so it would wait for ever.
  spawn('git', ['update-ref', '--stdin'], {
    env: { ...gitEnvironment(), GIT_DIR: dir },
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  await until('git runs', async () => (await refCommandsIn(dir)).length === 1)
  const received = `${dir}/objects/tmp_objdir-incoming-a`
  await mkdir(received)
  await journal.clean(dir)
  t.same(await refCommandsIn(dir), [])
  t.ok(await exists(received))
})

t.test('a git process that does not end is killed', async (t) => {
  const { dir, pending } = await setUp(t)
  // Its input stays open, so it would wait for ever.
  const child: ChildProcess = spawn('git', ['receive-pack', '--stateless-rpc', dir], {
    env: gitEnvironment(),
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = once(child, 'exit')
  await once(child, 'spawn')
  await until('git runs', async () => (await gitProcesses(dir)).length === 1)
  const before = await openPushJournal(pending)
  await before.begin('one', child.pid ?? 0)

  const journal = await openPushJournal(pending, { timeout: 100 })
  const [marker] = await journal.unfinished()
  if (marker === undefined) throw new Error('there is no marker')
  await journal.settle(marker, dir)
  t.same(await gitProcesses(dir), [])
  await ended
  t.equal(child.signalCode, 'SIGTERM')
})

t.test('another process that got the id of an old git process is not ended', async (t) => {
  const { dir, pending } = await setUp(t)
  const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
  t.teardown(() => stranger.kill())
  await once(stranger, 'spawn')
  const before = await openPushJournal(pending)
  await before.begin('one', stranger.pid ?? 0)
  const journal = await openPushJournal(pending, { timeout: 0 })
  for (const marker of await journal.unfinished()) await journal.settle(marker, dir)
  t.equal(stranger.exitCode, null)
  t.equal(stranger.signalCode, null)
})

t.test(
  'locks and half-received objects of dead processes are removed, also those of a clock that was ahead; others stay',
  async (t) => {
    const { dir, pending } = await setUp(t)
    const before = await openPushJournal(pending)
    await before.begin('one', 2 ** 30)
    const old = [
      'packed-refs.lock',
      'HEAD.lock',
      'refs/heads/a/b.lock',
      'refs/tags/v.lock',
      'objects/pack/tmp_pack_x',
    ]
    const ofLaterClock = ['packed-refs.new', 'refs/heads/later.lock']
    const young = ['refs/heads/young.lock', 'objects/pack/tmp_pack_y']
    const others = ['refs/heads/a/keep', 'objects/pack/pack-1.pack']
    await mkdir(`${dir}/refs/heads/a`)
    for (const name of [...old, ...ofLaterClock, ...others]) await writeFile(`${dir}/${name}`, '')
    await mkdir(`${dir}/objects/tmp_objdir-incoming-x/pack`, { recursive: true })
    const past = new Date(Date.now() - 60_000)
    for (const name of [...old, ...others, 'objects/tmp_objdir-incoming-x'])
      await utimes(`${dir}/${name}`, past, past)
    const future = new Date(Date.now() + 60_000)
    for (const name of ofLaterClock) await utimes(`${dir}/${name}`, future, future)

    const journal = await openPushJournal(pending)
    for (const name of young) {
      await writeFile(`${dir}/${name}`, '')
      const now = new Date(Date.now() + 1000)
      await utimes(`${dir}/${name}`, now, now)
    }
    for (const marker of await journal.unfinished()) {
      await journal.settle(marker, dir)
      await journal.settle(marker, `${dir}/deleted`)
    }
    const left = await readdir(dir, { recursive: true })
    for (const name of [...old, ...ofLaterClock]) t.notOk(left.includes(name), name)
    for (const name of [...young, ...others]) t.ok(left.includes(name), name)
    t.notOk(left.some((name) => name.includes('tmp_objdir')))
  },
)
