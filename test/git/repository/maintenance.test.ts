// In a process of its own: it sets the clock a year ahead.
import { randomBytes } from 'node:crypto'
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { storeObject } from '../../../src/git/objects/loose-objects.ts'
import { objectReaders } from '../../../src/git/objects/object-readers.ts'
import { readRefs } from '../../../src/git/refs/refs.ts'
import { fetchObjects } from '../../../src/git/repository/fetch-objects.ts'
import { forkRepository } from '../../../src/git/repository/fork.ts'
import {
  type MaintenanceOptions,
  maintainRepository,
  maintenanceDue,
} from '../../../src/git/repository/maintenance.ts'
import { bytesBelow, looseObjects, packsOf } from '../../../src/git/repository/object-counts.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { withStaging } from '../../../src/git/repository/staging.ts'
import { clockOf, YEAR_MS } from '../../set-clock.ts'
import { commit, initWork, tryGit, userGit } from '../client.ts'
import { startGitServer } from '../git-server.ts'

const MAIN = 'refs/heads/main'
const HOUR = 3600_000
const DAY = 24 * HOUR

async function setUp(t: Test) {
  const root = await mkdtemp(join(tmpdir(), 'mergelog-maintenance-'))
  t.teardown(async () => {
    await objectReaders.close(root)
    await rm(root, { recursive: true, force: true, maxRetries: 3 })
  })
  const dir = `${root}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const turns: string[] = []
  const maintain = (options: Partial<MaintenanceOptions> = {}) =>
    maintainRepository(dir, {
      async withRefLock(work) {
        turns.push('turn')
        await work()
      },
      ...options,
    })
  const has = async (id: string) => (await tryGit(dir, ['cat-file', '-e', id])).code === 0
  const fsck = () => userGit(dir, ['fsck', '--strict', '--no-dangling', '--no-progress'])
  return { root, dir, maintain, has, fsck, turns }
}

/** Sets the times of cruft packs back, as if they had been written then. */
async function age(dir: string, ms: number): Promise<void> {
  const at = new Date(Date.now() - ms)
  for (const { name, isCruft } of await packsOf(dir)) {
    if (isCruft) await utimes(`${dir}/objects/pack/${name}.pack`, at, at)
  }
}

t.test(
  'the due tasks follow from the loose objects, the packs, and the age of unreachable objects',
  async (t) => {
    const now = Date.now()
    const pack = { name: 'pack', bytes: 100, writtenAt: now, isCruft: false, hasBitmap: false }
    const main = { ...pack, bytes: 1000, hasBitmap: true }
    const cruft = { ...pack, isCruft: true }
    const small = Array.from({ length: 10 }, () => ({ ...pack, bytes: 10 }))
    for (const [loose, packs, due] of [
      [999, [], 'none'],
      [999, [main, ...small.slice(1)], 'none'],
      [1000, [], 'full'],
      [1000, [main], 'light'],
      [0, small, 'full'],
      [0, [main, ...small], 'light'],
      [1000, [main, pack, { ...pack, bytes: 399 }], 'light'],
      [1000, [main, pack, { ...pack, bytes: 400 }], 'full'],
      [0, [main, cruft], 'none'],
      [0, [main, { ...cruft, writtenAt: now - 14 * DAY }], 'none'],
      [0, [main, { ...cruft, writtenAt: now - 15 * DAY - 2 * HOUR }], 'full'],
    ] as const) {
      t.equal(
        maintenanceDue(loose, packs, now),
        due,
        `${loose} loose, ${JSON.stringify(packs.map(({ bytes }) => bytes))}`,
      )
    }
  },
)

t.test(
  'a full maintenance creates one pack, with a bitmap and a commit graph, and readers continue',
  async (t) => {
    const { dir, root, maintain, fsck, turns } = await setUp(t)
    const commits: string[] = []
    for (let i = 0; i < 12; i++) {
      commits.push(await commit(dir, `n ${i}`, { f: `${i}`, g: 'same' }, commits.slice(-1)))
      await userGit(dir, ['update-ref', MAIN, commits.at(-1) ?? ''])
      if (i % 3 === 0) await userGit(dir, ['repack', '-d', '-q'])
    }
    // These have opened the packs that will be removed.
    const readers = [commits[0] ?? '', commits[6] ?? '']
    t.equal((await objectReaders.headers(dir, readers)).length, 2)
    const before = await bytesBelow(dir)
    t.equal(await maintain(), 'none', 'nothing is due')
    const steps: string[] = []
    t.equal(await maintain({ kind: 'full', onStep: (step) => steps.push(step) }), 'full')
    t.same(steps, ['clean', 'refs', 'loose objects', 'commit graph', 'packs'])
    t.same(turns, [], 'few refs stay files of their own')
    const [main, ...others] = await packsOf(dir)
    t.match(main, { hasBitmap: true, isCruft: false })
    t.same(others, [])
    t.equal(await looseObjects(dir), 0)
    t.ok((await bytesBelow(dir)) < before)
    t.ok((await stat(`${dir}/objects/info/commit-graph`)).size > 0)
    const found = await objectReaders.headers(dir, commits)
    t.same(
      found.map((one) => one?.sha),
      commits,
    )
    t.equal(await fsck(), '')
    await userGit('/', ['clone', '-q', '--bare', dir, `${root}/clone`])
    t.equal(await userGit(`${root}/clone`, ['rev-parse', 'main']), commits.at(-1))
  },
)

t.test('a reader that was started before a repack finds every object after it', async (t) => {
  const { dir, maintain } = await setUp(t)
  const a = await commit(dir, 'a', { f: '1' }, [])
  await userGit(dir, ['update-ref', MAIN, a])
  await userGit(dir, ['repack', '-a', '-d', '-q'])
  const b = await commit(dir, 'b', { f: '2' }, [a])
  await userGit(dir, ['update-ref', MAIN, b])
  t.match(await objectReaders.headers(dir, [a]), [{ sha: a }])
  // Not by `maintainRepository`, which ends the readers of its own node: those of other nodes continue.
  await userGit(dir, ['repack', '-d', '-q', '--cruft', '-b'])
  const tree = await userGit(dir, ['rev-parse', `${b}^{tree}`])
  t.match(await objectReaders.headers(dir, [a, b, tree]), [{ sha: a }, { sha: b }, { sha: tree }])
  await maintain()
})

t.test(
  'many loose refs become one file under the lock of the refs, also with few objects, and read as before',
  async (t) => {
    const { dir, maintain, turns } = await setUp(t)
    const a = await commit(dir, 'a', { f: '1' }, [])
    const refs = Array.from({ length: 1000 }, (_, i) => `refs/pull/${i + 1}/head`)
    await userGit(dir, ['update-ref', '--stdin'], refs.map((ref) => `create ${ref} ${a}\n`).join(''))
    t.equal(await maintain(), 'none', 'nothing is due for the objects')
    t.same(turns, ['turn'])
    t.ok((await stat(`${dir}/packed-refs`)).size > 0)
    t.same(
      await readRefs(dir, ['refs/pull/1000/head', MAIN]),
      new Map([
        ['refs/pull/1000/head', a],
        [MAIN, null],
      ]),
    )
  },
)

t.test(
  'unreachable objects stay for two weeks from their first detection, and are then deleted',
  async (t) => {
    const { dir, root, maintain, has, fsck } = await setUp(t)
    const a = await commit(dir, 'a', { f: '1' }, [])
    const gone = await commit(dir, 'gone', { f: 'gone' }, [a])
    const packed = await commit(dir, 'packed', { f: 'packed' }, [a])
    await userGit(dir, ['update-ref', MAIN, a])
    await userGit(dir, ['update-ref', 'refs/heads/other', packed])
    await userGit(dir, ['update-ref', 'refs/pull/1/head', gone])
    await userGit(dir, ['repack', '-d', '-q'])
    const loose = await commit(dir, 'loose', { f: 'loose' }, [a])
    // All of it was written long ago, which is not the time since it became unreachable.
    const old = new Date(Date.now() - 100 * DAY)
    for (const { name } of await packsOf(dir)) await utimes(`${dir}/objects/pack/${name}.pack`, old, old)
    await utimes(`${dir}/objects/${loose.slice(0, 2)}/${loose.slice(2)}`, old, old)
    await userGit(dir, ['update-ref', '-d', 'refs/heads/other'])
    await maintain({ kind: 'full' })
    await age(dir, 2 * DAY)
    await maintain({ kind: 'full' })
    for (const id of [a, gone, packed, loose]) t.ok(await has(id), 'two days later all is there')
    t.equal(await looseObjects(dir), 0, 'without a ref it is in a cruft pack')

    // A fork has no unreachable objects, and shares the rest.
    await forkRepository(dir, `${root}/2.git`)
    t.same((await packsOf(`${root}/2.git`)).length, 1)
    t.equal((await tryGit(`${root}/2.git`, ['cat-file', '-e', loose])).code, 1)

    // The objects of a cruft pack have times of their own: an old object needs a file that is as old.
    await rewriteTimes(dir, 15 * DAY)
    await maintain({ kind: 'full' })
    for (const id of [packed, loose])
      t.ok(await has(id), 'a cruft pack of today loses nothing, whatever its times are')
    await age(dir, 26 * HOUR)
    // An object of the cruft pack that is in use again, in its own file: as a push or a fetch leaves it.
    await fetchObjects(dir, dir, packed)
    await userGit(dir, ['update-ref', 'refs/heads/again', packed])
    await maintain({ kind: 'full' })
    t.ok(await has(gone), 'a pull request keeps its head')
    t.ok(await has(packed), 'so does a branch that is there again')
    t.notOk(await has(loose))
    t.equal(await fsck(), '')
  },
)

/** Rewrites the cruft pack of a repository, with its objects last written `ms` ago. */
async function rewriteTimes(dir: string, ms: number): Promise<void> {
  const at = new Date(Date.now() - ms)
  for (const { name, isCruft } of await packsOf(dir)) {
    if (!isCruft) continue
    await rm(`${dir}/objects/pack/${name}.mtimes`)
    await utimes(`${dir}/objects/pack/${name}.pack`, at, at)
  }
  await userGit(dir, ['repack', '-d', '-q', '--cruft', '-b'])
}

t.test(
  'unreachable objects are deleted in time, even if they were detected while the clock was ahead',
  async (t) => {
    const { dir, maintain, has, fsck } = await setUp(t)
    const a = await commit(dir, 'a', { f: '1' }, [])
    await userGit(dir, ['update-ref', MAIN, a])
    const gone = await commit(dir, 'gone', { f: 'gone' }, [a])
    await maintain({ kind: 'full' })
    await rewriteTimes(dir, -365 * DAY)
    await age(dir, -365 * DAY)
    await maintain({ kind: 'full' })
    const [cruft, ...others] = (await packsOf(dir)).filter(({ isCruft }) => isCruft)
    t.same(others, [])
    t.ok(cruft !== undefined && cruft.writtenAt <= Date.now() + HOUR)
    // Its header has 12 bytes, its checksums 40; the rest are seconds since 1970.
    const times = await readFile(`${dir}/objects/pack/${cruft?.name}.mtimes`)
    for (let i = 12; i < times.length - 40; i += 4) {
      t.ok(times.readUInt32BE(i) * 1000 <= Date.now() + HOUR)
    }
    t.ok(await has(gone), 'two weeks begin now')
    t.equal(await fsck(), '')
  },
)

t.test('a clock that is set forward does not make fresh objects old', async (t) => {
  const setClock = clockOf(t)
  const { dir, maintain, has, fsck } = await setUp(t)
  const a = await commit(dir, 'a', { f: '1' }, [])
  await userGit(dir, ['update-ref', MAIN, a])
  const gone = await commit(dir, 'gone', { f: 'gone' }, [a])
  await maintain({ kind: 'full' })
  const received = `${dir}/objects/tmp_objdir-incoming-abc`
  await mkdir(received)
  setClock(YEAR_MS)
  t.equal(await maintain(), 'none')
  await maintain({ kind: 'full' })
  t.ok(await has(gone))
  t.ok((await stat(received)).isDirectory(), 'a push goes on')
  t.equal(await fsck(), '')
})

t.test(
  'leftovers of killed maintenance and pushes are removed, files that may be in use are not',
  async (t) => {
    const { dir, maintain, fsck } = await setUp(t)
    const a = await commit(dir, 'a', { f: '1' }, [])
    await userGit(dir, ['update-ref', MAIN, a])
    const pack = `${dir}/objects/pack`
    const before = new Date(Date.now() - HOUR)
    const abandoned = new Date(Date.now() - 26 * HOUR)
    const files: [string, Date, boolean][] = [
      ['pack/.tmp-123-pack-0123.pack', new Date(), false],
      ['info/commit-graph.lock', new Date(), false],
      ['pack/tmp_pack_abcdef', abandoned, false],
      ['pack/tmp_pack_new', before, true],
      [`pack/pack-${'a'.repeat(40)}.keep`, before, true],
      [`pack/pack-${'b'.repeat(40)}.keep`, abandoned, false],
      ['00/tmp_obj_old', abandoned, false],
      ['00/tmp_obj_new', before, true],
      ['tmp_objdir-staging-old', abandoned, false],
      ['tmp_objdir-incoming-new', before, true],
    ]
    await mkdir(`${dir}/objects/00`, { recursive: true })
    for (const name of ['tmp_objdir-staging-old', 'tmp_objdir-incoming-new']) {
      await mkdir(`${dir}/objects/${name}/ab`, { recursive: true })
    }
    for (const [name, at] of files) {
      if (!name.startsWith('tmp_objdir-')) await writeFile(`${dir}/objects/${name}`, 'x')
      await utimes(`${dir}/objects/${name}`, at, at)
    }
    const stopping = new AbortController()
    await t.rejects(
      maintain({
        kind: 'full',
        signal: stopping.signal,
        onStep: (step) => step === 'packs' && stopping.abort(),
      }),
      { name: 'AbortError' },
    )
    t.equal(await maintain({ kind: 'full' }), 'full')
    for (const [name, , stays] of files) {
      t.equal(
        await stat(`${dir}/objects/${name}`).then(
          () => true,
          () => false,
        ),
        stays,
        name,
      )
    }
    await maintain({ orphanedBefore: Date.now() })
    t.notOk((await readdir(pack)).includes('tmp_pack_new'), 'of a process before this one')
    t.notOk((await readdir(`${dir}/objects`)).some((name) => name.startsWith('tmp_')))
    t.equal(await fsck(), '')
  },
)

t.test('a repack that fails leaves no unfinished pack', async (t) => {
  const { dir, maintain } = await setUp(t)
  const a = await commit(dir, 'a', { f: randomBytes(3000).toString('hex') }, [])
  await userGit(dir, ['update-ref', MAIN, a])
  const blob = await userGit(dir, ['rev-parse', `${a}:f`])
  const pack = join(dir, 'objects', 'pack')
  await writeFile(join(pack, 'tmp_pack_before'), 'x')
  const damaged = join(dir, 'objects', blob.slice(0, 2), blob.slice(2))
  await chmod(damaged, 0o600)
  await truncate(damaged, 200)
  await t.rejects(maintain({ kind: 'full' }), { name: 'GitFailed' })
  t.strictSame(await readdir(pack), ['tmp_pack_before'], 'what was there before may be in use')
})

t.test('pushes, forks and new objects during repeated maintenance lose no object', async (t) => {
  const { dir, root, maintain, fsck } = await setUp(t)
  const server = await startGitServer(root)
  t.teardown(() => server.close())
  const work = `${root}/work`
  await initWork(work)
  await userGit(work, ['remote', 'add', 'origin', `${server.url}/1.git`])
  let tip = await commit(work, 'first', { f: '0' }, [])
  const tree = await userGit(work, ['rev-parse', `${tip}^{tree}`])
  await userGit(work, ['push', '-q', 'origin', `${tip}:${MAIN}`])
  const push = (...words: string[]) => userGit(work, ['push', '-q', ...words])
  const commitText = (name: string) =>
    Buffer.from(
      `tree ${tree}\nauthor A <a@example.org> 1 +0000\ncommitter A <a@example.org> 1 +0000\n\n${name}\n`,
    )
  let isDone = false
  let rounds = 0
  const maintaining = (async () => {
    while (!isDone) {
      await maintain({ kind: 'full' })
      await age(dir, 26 * HOUR)
      rounds += 1
    }
  })()
  // The files of edits, merges and rebases. A repack may remove an empty directory between its creation and its first
  // file.
  const writing = (async () => {
    for (let i = 0; !isDone; i++) {
      await storeObject(dir, 'blob', Buffer.from(`stored ${i}`))
      await withStaging(dir, async ({ writeCommit, keepAllBut }) => {
        for (const name of ['a', 'b', 'c']) await writeCommit(commitText(`${name} ${i}`))
        await keepAllBut(new Set())
      })
    }
  })()
  for (let i = 1; i <= 12; i++) {
    // Every third push undoes the previous one, and then repeats it.
    const next = await commit(work, `n ${i}`, { f: `${i % 3}`, [`g${i}`]: `${i}` }, [tip])
    await push('origin', `${next}:${MAIN}`)
    if (i % 3 === 0) {
      await push('--force', 'origin', `${tip}:${MAIN}`)
      await push('origin', `${next}:${MAIN}`)
    }
    if (i % 4 === 0) await forkRepository(dir, `${root}/fork${i}.git`)
    tip = next
  }
  isDone = true
  await Promise.all([maintaining, writing])
  t.ok(rounds > 0, `${rounds} maintenances`)
  t.equal(await fsck(), '')
  t.equal(await userGit(dir, ['rev-parse', MAIN]), tip)
  for (const i of [4, 8, 12])
    t.equal(await userGit(`${root}/fork${i}.git`, ['fsck', '--no-dangling', '--no-progress']), '')
})
