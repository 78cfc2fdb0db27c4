/** A push is recorded, however large its events are; and an unrecordable one blocks no other. */
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { MAX_APPEND_BYTES } from '../../src/events/store/append-size.ts'
import { type NewEvent, StoreUnavailable } from '../../src/events/store/event-store.ts'
import { gitStream } from '../../src/events/streams.ts'
import { listRefs } from '../../src/git/refs/refs.ts'
import { recoverPushes } from '../../src/processes/recovery.ts'
import { eventsIn, startPulls } from '../commands/pull-requests/pull-repository.ts'
import { gitWithInput, workTree } from '../git-client.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { EVENT_STORES, startOn } from './server-on-store.ts'

/** The refs of a repository in the log, and the number of recorded moves. */
async function logged(server: TestServer, repoId: number) {
  const refs = new Map<string, string>()
  let moves = 0
  for (const event of await eventsIn(server, gitStream(repoId))) {
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, to } of event.data.refs) {
      moves += 1
      if (to === null) refs.delete(ref)
      else refs.set(ref, to)
    }
  }
  return { refs: [...refs].sort(), moves }
}

/** The branches and tags in git. */
const inGit = async (dir: string) =>
  (await listRefs(dir))
    .filter(({ ref }) => !ref.startsWith('refs/pull/'))
    .map(({ ref, sha }) => [ref, sha])
    .sort()

/** Creates refs at one commit without a push, all in one file: git's state after an interrupted push. */
async function addRefs(dir: string, names: readonly string[], sha: string): Promise<void> {
  const file = join(dir, 'packed-refs')
  const before = (await readFile(file, 'utf8').catch(() => ''))
    .split('\n')
    .filter((line) => /^[0-9a-f]{40} /.test(line))
  const lines = [...before, ...names.map((name) => `${sha} ${name}`)].sort((a, b) =>
    a.slice(41) < b.slice(41) ? -1 : 1,
  )
  await writeFile(file, ['# pack-refs with: sorted', ...lines, ''].join('\n'))
}

const tags = (count: number, name = 'v') => Array.from({ length: count }, (_, i) => `refs/tags/${name}${i}`)

/** A thousand of these take as many bytes as 9,000 short ones. They take git much less time. */
const LONG = `${'a'.repeat(243)}/${'b'.repeat(243)}/${'c'.repeat(243)}/${'d'.repeat(240)}/`
const MANY = 1000

for (const store of EVENT_STORES) {
  t.test(`on ${store}`, async (t) => {
    const { server, alice, repository } = await startOn(t, store)
    const { services } = server

    t.test('a push whose events pass 1 MiB is recorded: tags with as many bytes as 9,000', async (t) => {
      const { repoId, dir, name } = await repository(t, 'tags')
      const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
      const names = tags(MANY, LONG)
      await addRefs(join(work.dir, '.git'), names, await work.git('rev-parse', 'HEAD'))
      const { events } = services
      const { append } = events
      const sizes: number[] = []
      events.append = async (stream, recorded, expected) => {
        if (stream === gitStream(repoId)) sizes.push(sizeOf(recorded))
        return append.call(events, stream, recorded, expected)
      }
      await work.git('push', '-q', '--tags')
      events.append = append
      t.ok(sizes.length > 1, 'in several appends')
      t.ok(sizes.every((size) => size < MAX_APPEND_BYTES))
      const { refs, moves } = await logged(server, repoId)
      t.strictSame(refs, await inGit(dir))
      t.equal(moves, names.length + 1)
      t.strictSame(services.pushJournal.unrecorded(), [])
      t.equal((await server.fetch(null, '/healthz')).status, 200)
    })
    // The same code splits events for both stores; the limit is that of EventStoreDB.
    if (store !== 'EventStoreDB') return

    t.test('a push whose events pass 1 MiB: 20 branches at one commit with a message of 70 KB', async (t) => {
      const { repoId, dir, name } = await repository(t, 'message')
      const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
      await writeFile(join(work.dir, 'message'), `Begin\n\n${'é'.repeat(35_000)}\n`)
      await work.git('commit', '-q', '--allow-empty', '-F', 'message')
      const head = await work.git('rev-parse', 'HEAD')
      const branches = Array.from({ length: 20 }, (_, i) => `refs/heads/branch-${i}`)
      await addRefs(join(work.dir, '.git'), branches, head)
      await work.git('push', '-q', '--all')
      t.strictSame((await logged(server, repoId)).refs, await inGit(dir))
      const [, pushed] = await eventsIn(server, gitStream(repoId))
      if (pushed?.type !== 'RefsUpdated') throw new Error('the push is not recorded')
      t.match(pushed.data.commits, [{ sha: head, message: /^Begin\n\né{4000,5000}$/ }], 'one summary, cut')
      t.equal(pushed.data.commits.length, 1)
      const { data } = await alice.repos.repoGetBranch('alice', name, 'branch-19')
      t.match(data.commit, { id: head, message: /^Begin\n\né/ })
    })

    t.test('a push whose events pass 1 MiB: an author name of 400 KB in latin-1', async (t) => {
      const { repoId, dir, name } = await repository(t, 'author')
      const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
      const line = (who: string, person: string) => `${who} ${person} <a@example.org> 1700000000 +0000\n`
      const commit = Buffer.from(
        `tree ${await work.git('rev-parse', 'HEAD^{tree}')}\n${line('author', 'é'.repeat(400_000))}${line('committer', '\u0001'.repeat(400_000))}encoding ISO-8859-1\n\nMessage\n`,
        'latin1',
      )
      const sha = await gitWithInput(work.dir, ['hash-object', '-t', 'commit', '-w', '--stdin'], commit)
      await work.git('push', '-q', 'origin', `${sha}:refs/heads/long`)
      t.strictSame((await logged(server, repoId)).refs, await inGit(dir))
      const [, pushed] = await eventsIn(server, gitStream(repoId))
      if (pushed?.type !== 'RefsUpdated') throw new Error('the push is not recorded')
      t.match(pushed.data.commits, [{ sha, message: 'Message\n', author: { name: /^é{200,300}$/ } }])
    })

    t.test('a fork of many refs is recorded', async (t) => {
      const { dir, fork, work } = await repository(t, 'forked')
      const message = `${'m'.repeat(70_000)}\n`
      const tree = await work.git('rev-parse', 'HEAD^{tree}')
      await work.git('fetch', '-q')
      const parent = await work.git('rev-parse', 'HEAD')
      const sha = await gitWithInput(dir, ['commit-tree', '-p', parent, tree], message)
      const names = Array.from({ length: MANY }, (_, i) => `refs/heads/${LONG}${i}`)
      await addRefs(dir, names, sha)
      const { repoId } = await fork('bob')
      const { refs, moves } = await logged(server, repoId)
      t.strictSame(refs, await inGit(`${services.gitDir}/${repoId}.git`))
      t.equal(moves, names.length + 1)
    })

    t.test('several interrupted pushes are recovered at once, each once', async (t) => {
      const { repoId, dir, tip } = await repository(t, 'cut-off')
      const sha = (await tip('main')) ?? ''
      for (const kind of ['a', 'b', 'c']) {
        const marker = await services.pushJournal.begin(`${repoId}`, 0)
        await addRefs(dir, tags(300, kind), sha)
        services.pushJournal.abandon(marker)
      }
      await Promise.all([recoverPushes(services), recoverPushes(services)])
      const { refs, moves } = await logged(server, repoId)
      t.strictSame(refs, await inGit(dir))
      t.equal(moves, 901)
      t.strictSame(await services.pushJournal.unfinished(), [])
    })

    t.test('when one append of several fails, the recovery records the rest, each once', async (t) => {
      const { repoId, dir, tip } = await repository(t, 'partly')
      const marker = await services.pushJournal.begin(`${repoId}`, 0)
      await addRefs(dir, tags(MANY, LONG), (await tip('main')) ?? '')
      services.pushJournal.abandon(marker)
      const { events } = services
      const { append } = events
      let appends = 0
      events.append = async (stream, recorded, expected) => {
        if (stream === gitStream(repoId)) appends += 1
        if (stream === gitStream(repoId) && appends === 2) throw new StoreUnavailable('away')
        return append.call(events, stream, recorded, expected)
      }
      await recoverPushes(services)
      t.match(services.pushJournal.unrecorded(), [{ key: `${repoId}`, reason: 'away' }])
      const { moves: first } = await logged(server, repoId)
      t.ok(first > 1 && first < MANY + 1, 'a part is recorded')
      await recoverPushes(services)
      const { refs, moves } = await logged(server, repoId)
      t.strictSame(refs, await inGit(dir))
      t.equal(moves, MANY + 1)
      t.strictSame(services.pushJournal.unrecorded(), [])
    })
  })
}

t.test(
  'at start a marker that cannot be recorded is logged and shown in /healthz; the others and merges are recovered',
  async (t) => {
    const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-start-'))
    t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
    const { server, repository } = await startPulls(t, { DATA_DIR, LOG_LEVEL: 'silent' })
    const broken = await repository(t, 'broken')
    const whole = await repository(t, 'whole')
    const merging = await repository(t, 'merging')
    const head = await merging.branch('topic', { 'a.txt': 'a\n' })
    await merging.open('topic')
    const { events, pushJournal } = server.services
    const { append, appendTogether } = events
    events.append = async (stream, recorded, expected) => {
      const isMove = recorded.some(({ type }) => type === 'RefsUpdated')
      if (isMove && stream === gitStream(merging.repoId)) throw new StoreUnavailable('killed')
      return append.call(events, stream, recorded, expected)
    }
    // The move is the first part of what a merge appends at its end.
    events.appendTogether = async (makers) => {
      if (makers[0]?.([]).stream === gitStream(merging.repoId)) throw new StoreUnavailable('killed')
      return (await appendTogether?.call(events, makers)) ?? []
    }
    t.equal((await merging.merge(1)).status, 503)
    const sha = (await whole.tip('main')) ?? ''
    // The first one by name, so that the others come after it.
    for (const { repoId } of [broken, whole]) await pushJournal.begin(`${repoId}`, 0)
    await addRefs(whole.dir, ['refs/tags/v1'], sha)
    await server.stop()
    const packedRefs = join(broken.dir, 'packed-refs')
    const good = await readFile(packedRefs, 'utf8').catch(() => '')
    await appendFile(packedRefs, 'this is no ref\n')

    const next = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'silent' })
    const health = await next.fetch(null, '/healthz')
    t.equal(health.status, 503)
    t.match(await health.json(), {
      status: 'recovering',
      unrecordedPushes: [{ repository: broken.repoId, reason: /./ }],
    })
    t.strictSame((await logged(next, whole.repoId)).refs, await inGit(whole.dir))
    const { data: merged } = await (await next.as('alice')).repos.repoGetPullRequest('alice', 'merging', 1)
    t.match(merged, { merged: true, head: { sha: head } })
    await writeFile(packedRefs, good)
    await until('the push is recorded', async () => (await next.fetch(null, '/healthz')).status === 200)
  },
)

const sizeOf = (recorded: readonly NewEvent[]) => Buffer.byteLength(JSON.stringify(recorded))
