/** How moments are built, shared and removed. */
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createMoments, type MomentLimits } from '../../../../src/queries/history/moments/moments.ts'
import type { MomentPoint, Subject } from '../../../../src/services/moment.ts'
import { startTestServer } from '../../../start-server.ts'
import { until } from '../../../until.ts'

const CLIENT = { client: 'a' }

/** A repository whose issue has changed a few times, and moments of it. */
async function setUp(test: Test, limits: Partial<MomentLimits> = {}) {
  const { services, as } = await startTestServer(test)
  const alice = await as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name: 'app' })
  const subject: Subject = { kind: 'repository', id: data.id ?? 0 }
  const points: MomentPoint[] = []
  for (let i = 0; i < 6; i++) {
    await alice.repos.issueCreateIssue('alice', 'app', { title: `Issue ${i}` })
    const position = await services.events.lastPosition()
    const point = await services.moments.resolve(subject, { position })
    if (point !== undefined) points.push(point)
  }
  const directory = test.testdir()
  let reads = 0
  const events = {
    ...services.events,
    readPositions(positions: readonly number[]) {
      reads += positions.length
      return services.events.readPositions(positions)
    },
  }
  const moments = await createMoments({ ...services, events }, { directory, deadlineMs: 10_000, limits })
  test.teardown(() => moments.close())
  const at = (i: number): MomentPoint => points[i] ?? { position: 0, at: '' }
  const open = (i: number, client = CLIENT) => moments.open(subject, at(i), client)
  const titles = async (i: number) => {
    const { views, release } = await open(i)
    const found = await views.issues.find({ repoId: subject.id }, { sort: [['id', -1]] })
    release()
    return found.map(({ title }) => title)
  }
  return { moments, directory, open, titles, reads: () => reads, subject, at, services }
}

const filesIn = async (directory: string) =>
  (await readdir(directory)).filter((name) => /^\d+\.db$/.test(name))

t.test('a moment is built once for concurrent requests', async (t) => {
  const { moments, directory, open, reads } = await setUp(t)
  const clients = ['a', 'b', 'c', 'c'].map((client) => open(2, { client }))
  const opened = await Promise.all(clients)
  t.equal(new Set(opened.map(({ views }) => views)).size, 1)
  const before = reads()
  for (const { release } of opened) release()
  ;(await open(2)).release()
  t.equal(reads(), before, 'later requests read nothing')
  t.equal(moments.cached().moments, 1)
  t.equal((await filesIn(directory)).length, 1)
})

t.test('a moment near a cached one starts from it', async (t) => {
  const { titles, reads } = await setUp(t)
  t.same(await titles(1), ['Issue 1', 'Issue 0'])
  const first = reads()
  t.same(await titles(4), ['Issue 4', 'Issue 3', 'Issue 2', 'Issue 1', 'Issue 0'])
  t.ok(reads() - first < first + 8, `${first} events, then ${reads() - first}`)
  t.same(await titles(0), ['Issue 0'], 'an earlier one does not')
})

t.test('moments are bounded in count, and an evicted one stays readable while it is used', async (t) => {
  const { moments, directory, open, titles } = await setUp(t, { count: 2 })
  const used = await open(0)
  for (const i of [1, 2, 3]) await titles(i)
  t.equal(moments.cached().moments, 2)
  t.match(await used.views.issues.find({}), [{ title: 'Issue 0' }])
  used.release()
  used.release()
  await until('evicted files are removed', async () => (await filesIn(directory)).length === 2)
})

t.test('moments are bounded in bytes: one that is too large is only used', async (t) => {
  const { moments, directory, titles } = await setUp(t, { bytes: 1000 })
  t.same(await titles(1), ['Issue 1', 'Issue 0'])
  t.same(await titles(2), ['Issue 2', 'Issue 1', 'Issue 0'])
  t.equal(moments.cached().moments, 0)
  await until('its file is removed', async () => (await filesIn(directory)).length === 0)
})

t.test('a client has a quota of builds: others do not wait for its queue, and it gets 429', async (t) => {
  const { open } = await setUp(t, { builds: 2, waiting: 8 })
  const greedy = [0, 1, 2, 3, 4, 5].map((i) => open(i, { client: 'greedy' }))
  const outcomes = Promise.allSettled(greedy)
  const other = await open(5, { client: 'other' })
  other.release()
  const refused = (await outcomes).filter((outcome) => outcome.status === 'rejected')
  t.ok(refused.length > 0)
  for (const { reason } of refused) t.match(reason, { refusal: { refused: 'tooManyRequests' } })
  for (const outcome of await outcomes) if (outcome.status === 'fulfilled') outcome.value.release()
})

t.test('a build whose last client has left ends, and its file is removed', async (t) => {
  const { moments, directory, open } = await setUp(t)
  const leaving = new AbortController()
  const asked = open(3, { ...CLIENT, ...{ gone: leaving.signal } })
  leaving.abort(new Error('gone'))
  await t.rejects(asked, { message: 'gone' })
  await until('no file is left', async () => (await filesIn(directory)).length === moments.cached().moments)
  ;(await open(3)).release()
})

t.test('a start removes what a killed server left', async (t) => {
  const { directory, services } = await setUp(t)
  await writeFile(join(directory, '7.db'), 'half a file')
  await writeFile(join(directory, 'empty.db.new'), 'half a file')
  const again = await createMoments(services, { directory, deadlineMs: 10_000 })
  t.same(await readdir(directory), [])
  await again.close()
})
