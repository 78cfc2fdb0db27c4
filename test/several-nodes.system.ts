/** Two nodes on the same stores and one data directory: locks, order, and leftovers of a lost node. */
import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { recordRefs } from '../src/commands/git/record-refs.ts'
import { decode } from '../src/events/codec.ts'
import type { DomainEvent } from '../src/events/domain-events.ts'
import { NODES } from '../src/events/nodes/membership.ts'
import type { EventStore } from '../src/events/store/event-store.ts'
import { gitStream, pullStream } from '../src/events/streams.ts'
import { listRefs, updateRefs } from '../src/git/refs/refs.ts'
import { reconcileRefs, recoverPushes } from '../src/processes/recovery.ts'
import { openMongoDatabase } from '../src/projections/store/mongodb/database.ts'
import { gitDirOf } from '../src/services/services.ts'
import { type WorkTree, workTree } from './git-client.ts'
import { sharedStores } from './shared-stores.ts'
import { startTestServer, statusOf, type TestServer } from './start-server.ts'
import { aContext } from './stores.ts'
import { until } from './until.ts'

async function eventsOf(server: TestServer, stream: string): Promise<DomainEvent[]> {
  return await Array.fromAsync(server.services.events.readStream(stream), (recorded) => decode(recorded))
}

/** The log has the moves of each ref in git's order, without a gap, and ends where git stands. */
async function refsAgree(t: Test, server: TestServer, repoId: number): Promise<void> {
  const refs = new Map<string, string>()
  for (const event of await eventsOf(server, gitStream(repoId))) {
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, from, to } of event.data.refs) {
      t.equal(from, refs.get(ref) ?? null, `${ref} moves on from where it was`)
      if (to === null) refs.delete(ref)
      else refs.set(ref, to)
    }
  }
  const actual = await listRefs(gitDirOf(server.services, repoId))
  const pushed = actual.filter(({ ref }) => !ref.startsWith('refs/pull/')).map(({ ref, sha }) => [ref, sha])
  t.strictSame([...refs].sort(), pushed.sort())
  t.equal(await reconcileRefs(server.services, repoId), 0)
}

async function causesOf(server: TestServer, repoId: number): Promise<string[]> {
  const events = await eventsOf(server, gitStream(repoId))
  return events.flatMap((event) => (event.type === 'RefsUpdated' ? [event.data.cause] : []))
}

/** Suspends a node before it writes, from the first matching event, until the test resumes it. */
function standStillAt(
  { services }: TestServer,
  matches: (event: { type: string; data: unknown }) => boolean,
) {
  const { append } = services.events
  const { promise: gate, resolve: goOn } = Promise.withResolvers<void>()
  let isStill = false
  const waiting: EventStore['append'] = async (stream, events, expected) => {
    if (events.some(matches)) {
      isStill = true
      await gate
    }
    return append.call(services.events, stream, events, expected)
  }
  services.events.append = waiting
  return {
    reached: () => until('the node stands still', () => isStill),
    goOn() {
      services.events.append = append
      goOn()
    },
  }
}

const isRefsOf = (repoId: number, cause: string) => (event: { type: string; data: unknown }) => {
  const data = JSON.stringify(event.data)
  return (
    event.type === 'RefsUpdated' &&
    data.includes(`"repoId":${repoId},`) &&
    data.includes(`"cause":"${cause}"`)
  )
}

t.test('two nodes on one data directory', async (t) => {
  const environment = await sharedStores(t)
  const [one, two] = [
    await startTestServer(t, { ...environment, NODE_NAME: 'one', LOG_LEVEL: 'fatal' }),
    await startTestServer(t, { ...environment, NODE_NAME: 'two', LOG_LEVEL: 'fatal' }),
  ]
  const alice = await one.as('alice')
  const database = openMongoDatabase(environment.MONGODB_URL, 'the nodes')
  t.teardown(() => database.close())

  /**
   * Fences a node out, as the other node does without heartbeats. Returns a function that waits until the node has
   * rejoined. Until its next heartbeat it keeps its old incarnation, and its markers would be those of a lost node.
   */
  const fenceOut = async ({ services: { nodes } }: TestServer) => {
    const { id } = nodes.self()
    await database.database.collection<{ _id: string }>(NODES).deleteOne({ _id: id })
    return () =>
      until('it is a member again, as another incarnation', () => nodes.self().id !== id && nodes.isMember())
  }

  const repositoryOf = async (name: string) => {
    const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true })
    await until('the other node knows the repository', async () => {
      return (await two.fetch('alice', `/api/v1/repos/alice/${name}`)).status === 200
    })
    const repoId = data.id ?? 0
    const trees = [
      await workTree(t, one.gitUrl('alice', `alice/${name}`)),
      await workTree(t, two.gitUrl('alice', `alice/${name}`)),
    ] as const
    return { name, repoId, trees }
  }

  const opened = async (name: string, head: string): Promise<number> => {
    const { data } = await alice.repos.repoCreatePullRequest('alice', name, {
      head,
      base: 'main',
      title: head,
    })
    return data.number ?? 0
  }
  const merge = (server: TestServer, name: string, index: number) =>
    server.fetch('alice', `/api/v1/repos/alice/${name}/pulls/${index}/merge`, {
      method: 'POST',
      body: JSON.stringify({ Do: 'merge' }),
    })

  t.strictSame(
    [one, two].map(({ services }) => services.nodes.self().name),
    ['one', 'two'],
  )
  await until('they see each other', () => one.services.nodes.all().length === 2)

  await t.test(
    'pushes and merges of one repository from two nodes at once agree with the log, in their order',
    async (t) => {
      const { name, repoId, trees } = await repositoryOf('both')
      const branches = ['a', 'b', 'c', 'd']
      for (const branch of branches) {
        await trees[0].git('checkout', '-q', '-b', branch, 'origin/main')
        await trees[0].commit(`Add ${branch}`, { [branch]: `${branch}\n` })
      }
      await trees[0].git('push', '-q', 'origin', ...branches)
      const indexes: number[] = []
      for (const branch of branches) indexes.push(await opened(name, branch))
      await until('the other node knows the pull requests', async () => {
        return (
          (await two.fetch('alice', `/api/v1/repos/alice/${name}/pulls/${indexes.at(-1)}`)).status === 200
        )
      })
      /** Moves the same branch as the other node: of two pushes at once, one may come too late. */
      const pushes = async (tree: WorkTree, own: string) => {
        for (let i = 0; i < 3; i++) {
          await tree.commit(`${own} ${i}`, { [own]: `${i}\n` })
          await tree.git('push', '-q', 'origin', `HEAD:refs/heads/${own}`)
          await tree.git('push', '-q', '-f', 'origin', 'HEAD:refs/heads/shared').catch(() => {})
        }
      }
      const [statuses] = await Promise.all([
        Promise.all(indexes.map((index, i) => merge(i % 2 === 0 ? one : two, name, index))),
        pushes(trees[0], 'from-one'),
        pushes(trees[1], 'from-two'),
      ])
      t.strictSame(
        statuses.map(({ status }) => status),
        [200, 200, 200, 200],
      )
      await refsAgree(t, one, repoId)
      const merged = await Promise.all(indexes.map((index) => eventsOf(two, pullStream(repoId, index))))
      for (const events of merged) {
        t.equal(events.filter(({ type }) => type === 'PullRequestMerged').length, 1)
        t.equal(events.filter(({ type }) => type === 'MergeFailed').length, 0)
      }
      await trees[1].git('fetch', '-q')
      for (const branch of branches) t.equal(await trees[1].git('show', `origin/main:${branch}`), branch)
    },
  )

  await t.test(
    'a node that was suspended between a push and its record does not overwrite later records',
    async (t) => {
      const { repoId, trees } = await repositoryOf('still')
      const first = await trees[0].commit('First', { f: '1\n' })
      const still = standStillAt(one, isRefsOf(repoId, 'push'))
      const pushing = trees[0].git('push', '-q', 'origin', 'HEAD:refs/heads/main')
      await still.reached()
      const back = await fenceOut(one)
      await trees[1].git('fetch', '-q', gitDirOf(two.services, repoId), 'main')
      await trees[1].git('reset', '-q', '--hard', first)
      const second = await trees[1].commit('Second', { f: '2\n' })
      await trees[1].git('push', '-q', 'origin', 'HEAD:refs/heads/main')
      t.strictSame(await causesOf(two, repoId), ['auto-init', 'recovered', 'push'])
      still.goOn()
      await pushing
      t.strictSame(await causesOf(two, repoId), ['auto-init', 'recovered', 'push'])
      await refsAgree(t, two, repoId)
      const refs = await listRefs(gitDirOf(two.services, repoId), 'refs/heads/')
      t.strictSame(refs, [{ ref: 'refs/heads/main', sha: second }])
      await back()
    },
  )

  await t.test('a merge of a lost node is finished by the next holder of the lock, once', async (t) => {
    const { name, repoId, trees } = await repositoryOf('halves')
    for (const branch of ['a', 'b']) {
      await trees[0].git('checkout', '-q', '-b', branch, 'origin/main')
      await trees[0].commit(`Add ${branch}`, { [branch]: `${branch}\n` })
    }
    await trees[0].git('push', '-q', 'origin', 'a', 'b')
    const [a, b] = [await opened(name, 'a'), await opened(name, 'b')]
    const still = standStillAt(one, isRefsOf(repoId, 'merge'))
    const cutOff = merge(one, name, a)
    await still.reached()
    const back = await fenceOut(one)
    await until('the other node merges', async () => (await merge(two, name, b)).status === 200)
    for (const index of [a, b]) {
      const types = (await eventsOf(two, pullStream(repoId, index))).map(({ type }) => type)
      t.equal(types.filter((type) => type === 'PullRequestMerged').length, 1)
    }
    still.goOn()
    t.equal((await cutOff).status, 200, 'it is merged, whoever finished it')
    t.strictSame(await causesOf(two, repoId), ['auto-init', 'push', 'merge', 'merge'])
    t.equal(
      (await eventsOf(two, pullStream(repoId, a))).filter(({ type }) => type === 'PullRequestMerged').length,
      1,
    )
    await refsAgree(t, two, repoId)
    await back()
  })

  await t.test('a start does not remove files in use by another node', async (t) => {
    const { repoId } = await repositoryOf('kept')
    const objects = join(gitDirOf(one.services, repoId), 'objects')
    const uuid = '6f9619ff-8b86-4d01-b42d-00cf4fc964ff'
    const worked = [
      join(objects, 'tmp_objdir-incoming-AbCdEf'),
      join(objects, `tmp_objdir-staging-${uuid}`),
      join(one.services.gitDir, `4711.git.new-${uuid}`),
      join(one.services.gitDir, `4712.git.gone-${uuid}`),
    ]
    const received = join(environment.DATA_DIR, 'attachments', 'incoming', `6f-${uuid}`)
    const kept = join(environment.DATA_DIR, 'attachments', '6f', uuid)
    for (const path of worked) await mkdir(path)
    await mkdir(join(kept, '..'), { recursive: true })
    for (const path of [received, kept]) await writeFile(path, 'x')
    const marker = await one.services.pushJournal.begin(`${repoId}`, 0)

    const third = await startTestServer(t, { ...environment, NODE_NAME: 'three', LOG_LEVEL: 'fatal' })
    t.strictSame(await third.services.pushJournal.unfinished(), [], 'a marker of a live node is its own')
    for (const path of [...worked, received, kept, marker.file]) {
      t.ok(await stat(path).catch(() => undefined), path)
    }

    // Files that have not changed for more than a day are orphaned.
    const longAgo = new Date(Date.now() - 26 * 3_600_000)
    for (const path of [...worked, received]) await utimes(path, longAgo, longAgo)
    await third.stop()
    const fourth = await startTestServer(t, { ...environment, NODE_NAME: 'four', LOG_LEVEL: 'fatal' })
    t.strictSame(await readdir(join(received, '..')), [])
    t.strictSame(
      (await readdir(one.services.gitDir)).filter((name) => name.startsWith('471')),
      [],
    )

    // The marker of a lost node is recovered by another node, with old files in the repository.
    await (await fenceOut(one))()
    await until('the push is settled', async () => {
      await recoverPushes(fourth.services)
      return (await stat(marker.file).catch(() => undefined)) === undefined
    })
    t.strictSame(
      (await readdir(objects)).filter((name) => name.startsWith('tmp_objdir')),
      [],
    )
    await fourth.stop()
  })

  await t.test('unrecorded moves of another node keep their cause when the log has moved on', async (t) => {
    const { repoId, trees } = await repositoryOf('moved-on')
    const [main] = await listRefs(gitDirOf(one.services, repoId), 'refs/heads/')
    const sha = main?.sha ?? ''
    const moves = ['a', 'b', 'c'].map((name) => ({ ref: `refs/heads/${name}`, from: null, to: sha }))
    const [a, b, c] = moves
    if (a === undefined || b === undefined || c === undefined) throw new Error('no moves')
    t.equal(await updateRefs(gitDirOf(one.services, repoId), [a, b]), 'moved')
    await recordRefs(two.services, aContext(), repoId, 'push', [b], 0)
    // It still expects the old revision. The third ref has moved back meanwhile.
    await recordRefs(one.services, aContext(), repoId, 'push', [a, b, c], 0)
    t.strictSame(await causesOf(one, repoId), ['auto-init', 'push', 'push'])
    await refsAgree(t, one, repoId)
    await trees[0].git('push', '-q', 'origin', ':refs/heads/a')
    await refsAgree(t, one, repoId)
  })

  await t.test('statuses and changes of comments through both nodes at once do not conflict', async (t) => {
    const { name, repoId } = await repositoryOf('busy')
    const [main] = await listRefs(gitDirOf(one.services, repoId), 'refs/heads/')
    const post = (server: TestServer, path: string, body: object) =>
      server.fetch('alice', `/api/v1/repos/alice/${name}/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
      })
    const status = (i: number) =>
      post(i % 2 === 0 ? one : two, `statuses/${main?.sha}`, { state: 'success', context: `job ${i}` })
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => status(i)))
    t.strictSame(new Set(answers.map((answer) => answer.status)), new Set([201]))

    const { data: issue } = await alice.repos.issueCreateIssue('alice', name, { title: 'busy' })
    const index = issue.number ?? 0
    const { data: comment } = await alice.repos.issueCreateComment('alice', name, index, { body: 'first' })
    await until('the other node knows the comment', async () => {
      const path = `/api/v1/repos/alice/${name}/issues/comments/${comment.id}`
      return (await two.fetch('alice', path)).status === 200
    })
    const edit = (i: number) =>
      one.fetch('alice', `/api/v1/repos/alice/${name}/issues/comments/${comment.id}`, {
        method: 'PATCH',
        body: JSON.stringify({ body: `edit ${i}` }),
      })
    const add = (i: number) => post(two, `issues/${index}/comments`, { body: `comment ${i}` })
    const changes = await Promise.all(Array.from({ length: 6 }, (_, i) => [edit(i), add(i)]).flat())
    t.strictSame(new Set(changes.map((answer) => answer.status)), new Set([200, 201]))
  })

  await t.test("two site admins cannot remove each other's permissions through two nodes", async (t) => {
    await one.as('bob')
    const set = (server: TestServer, by: string, login: string, admin: boolean) =>
      server.fetch(by, `/api/v1/admin/users/${login}`, { method: 'PATCH', body: JSON.stringify({ admin }) })
    t.equal((await set(one, 'admin', 'bob', true)).status, 200)
    await until('the other node knows the second admin', async () => {
      return (await two.fetch('bob', '/api/v1/admin/users')).status === 200
    })
    const ended = await Promise.all([set(one, 'admin', 'bob', false), set(two, 'bob', 'admin', false)])
    t.equal(ended.filter(({ status }) => status === 200).length, 1)
  })

  await t.test('a node that is not a member answers 503, and the others continue', async (t) => {
    const { name, trees } = await repositoryOf('members')
    await two.services.nodes.leave()
    for (const path of ['/api/v1/repos/alice/members', '/sdk/upgrade/v1beta1/current_plan', '/healthz']) {
      t.equal((await two.fetch('alice', path)).status, 503, path)
      t.equal((await one.fetch('alice', path)).status, 200, path)
    }
    t.equal((await merge(two, name, 1)).status, 503)
    t.equal(await statusOf(two.anonymous.repos.repoGet('alice', 'members')), 503)
    await trees[1].commit('Late', { f: '1\n' })
    await t.rejects(trees[1].git('push', '-q', 'origin', 'HEAD:refs/heads/late'))
    await trees[0].commit('In time', { f: '1\n' })
    await trees[0].git('push', '-q', 'origin', 'HEAD:refs/heads/main')
  })
})
