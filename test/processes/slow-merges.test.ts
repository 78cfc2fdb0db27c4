import t from 'tap'
import { pulls } from '../../src/commands/execution/aggregates.ts'
import { tryMerge } from '../../src/commands/pull-requests/check-mergeability.ts'
import { decideMergeability } from '../../src/commands/pull-requests/pull-request.decider.ts'
import { gitStream } from '../../src/events/streams.ts'
import { GitFailed, GitTookTooLong } from '../../src/git/process/errors.ts'
import { createLateMerges } from '../../src/processes/pull-requests/late-merges.ts'
import { openLateMerges } from '../../src/projections/installation/late-merges.ts'
import { eventsIn, startPulls, type Test } from '../commands/pull-requests/pull-repository.ts'
import { aContext } from '../stores.ts'
import { until } from '../until.ts'

const { server, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const { services } = server
const notes = openLateMerges(services.readStore)

/** A repository whose pull requests conflict with its base, though the last check says that they do not. */
async function conflicting(t: Test, name: string, count: number) {
  const { branch, open, repoId, eventsOf } = await repository(t, name)
  const indexes: number[] = []
  for (let i = 0; i < count; i++) {
    await branch(`topic${i}`, { 'a.txt': `of topic ${i}\n` })
    indexes.push(await open(`topic${i}`))
  }
  await branch('main', { 'a.txt': 'of main\n' }, 'main')
  const [move] = (await eventsIn(server, gitStream(repoId))).slice(-1)
  // Removes the pending work of the server's own process from the test's record.
  await until('the process has done what follows', async () => {
    const checkpoint = await services.readStore.checkpoint('process_pull_heads')
    return move !== undefined && (checkpoint?.position ?? 0) >= move.position
  })
  const lastCheck = async (index: number) =>
    (await eventsOf(index)).findLast(({ type }) => type === 'MergeabilityChecked')?.data
  const refs = indexes.map((index) => ({ repoId, index }))
  for (const ref of refs) {
    await until('it was tried', async () => (await lastCheck(ref.index)) !== undefined)
    await pulls.change(services, aContext(), ref, 'an earlier check', (state) =>
      state.status === 'none'
        ? []
        : decideMergeability(state, {
            head: state.head.sha,
            base: state.head.sha,
            mergeable: true,
            conflicts: [],
          }),
    )
  }
  return { repoId, refs, lastCheck }
}

/** The worker that tries merges until the test ends. */
function lateMerges(t: Test, options: Parameters<typeof createLateMerges>[2]) {
  const ending = new AbortController()
  const late = createLateMerges(services, ending.signal, options)
  t.teardown(async () => {
    ending.abort()
    await late.stopped()
  })
  return late
}

const isDone = (repoId: number) => async () => (await notes.get(repoId)) === undefined

t.test('slow merges block no other repository: a worker tries them', async (t) => {
  const { repoId, refs, lastCheck } = await conflicting(t, 'slow', 3)
  await lateMerges(t, { atOnceMs: 0 }).check(aContext(), 7, repoId, refs.slice(0, 2))
  t.match(await lastCheck(1), { mergeable: true }, 'it was not waited for')
  t.match(await notes.get(repoId), {
    pulls: [
      { index: 1, position: 7 },
      { index: 2, position: 7 },
    ],
  })

  // As after a restart.
  const late = lateMerges(t, {})
  await late.check(aContext(), 8, repoId, refs.slice(1))
  t.match(await lastCheck(3), { mergeable: true }, 'what follows waits with the others of its repository')
  late.start(() => 'here')
  await until('the worker has tried them', isDone(repoId))
  for (const { index } of refs) t.match(await lastCheck(index), { mergeable: false, conflicts: ['a.txt'] })
})

t.test('a merge that takes too long to try, also by itself, counts as a conflict', async (t) => {
  const { repoId, refs, lastCheck } = await conflicting(t, 'too-slow', 2)
  const late = lateMerges(t, { atOnceMs: 0, tryMs: 0 })
  late.start(() => 'here')
  await late.check(aContext(), 7, repoId, refs)
  await until('the worker has given up', isDone(repoId))
  for (const { index } of refs) t.match(await lastCheck(index), { mergeable: false, conflicts: [] })
  const answer = await server.fetch('alice', '/api/v1/repos/alice/too-slow/pulls/1')
  t.match(await answer.json(), { mergeable: false })
})

t.test(
  'a client waits at most a minute for a trial merge, and a slower one counts as a conflict',
  async (t) => {
    const { repoId, refs } = await conflicting(t, 'opening', 1)
    const [pull] = await Promise.all(refs.map((ref) => pulls.load(services, ref)))
    if (pull?.status !== 'open') throw new Error('not open')
    const pair = { ours: pull.mergeability.base, theirs: pull.head.sha }
    t.equal(await tryMerge(services, repoId, pair, 0), undefined)
  },
)

t.test('a merge that git cannot try, also by itself, is given up, and blocks no other', async (t) => {
  const tried: number[][] = []
  const late = lateMerges(t, {
    atOnceMs: 0,
    async tryMerges(_services, _context, _repoId, refs, { withinMs }) {
      if (withinMs === 0) throw new GitTookTooLong('merge-tree took more than 0 ms')
      const indexes = refs.map(({ index }) => index)
      tried.push(indexes)
      if (indexes.includes(1)) throw new GitFailed(['merge-tree'], 128, 'an object is damaged')
    },
  })
  late.start(() => 'here')
  const refs = [1, 2].map((index) => ({ repoId: 97, index }))
  await late.check(aContext(), 7, 97, refs)
  await until('all were tried', isDone(97))
  t.strictSame(tried, [[1, 2], [1], [2]])
})

t.test('running trial merges end immediately at a stop, and stay recorded', async (t) => {
  const { repoId, refs } = await conflicting(t, 'stopping', 1)
  await lateMerges(t, { atOnceMs: 0 }).check(aContext(), 7, repoId, refs)
  const ending = new AbortController()
  const late = createLateMerges(services, ending.signal, {
    async tryMerges(_services, _context, _repoId, _refs, { signal }) {
      ending.abort()
      signal?.throwIfAborted()
    },
  })
  late.start(() => 'here')
  await late.stopped()
  t.match(await notes.get(repoId), { pulls: [{ index: 1, position: 7 }] })
})

t.test('a merge that is queued again while it is tried stays recorded', async (t) => {
  await notes.add({ repoId: 99, actor: null }, [1, 2], 5)
  const before = await notes.get(99)
  await notes.add({ repoId: 99, actor: null }, [2], 6)
  await notes.remove(99, before?.pulls ?? [])
  t.match(await notes.get(99), { pulls: [{ index: 2, position: 6 }] })
  await notes.forget(99)
  t.equal(await notes.get(99), undefined)
})

t.test('the merges of a deleted repository are removed', async (t) => {
  await notes.add({ repoId: 98, actor: null }, [1], 5)
  lateMerges(t, {}).start(() => 'here')
  await until('they are forgotten', isDone(98))
})
