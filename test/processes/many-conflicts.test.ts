/** A failure for one pull request does not stop the process for the others on the same base. */
import t from 'tap'
import { pullStream } from '../../src/events/streams.ts'
import type { PullRepository } from '../commands/pull-requests/pull-repository.ts'
import { startOn } from '../sizes/server-on-store.ts'
import { until } from '../until.ts'

const FILES = 1500
/** As many paths of this length pass 1 MiB. */
const path = (i: number) => `${'directory/'.repeat(80)}file-${i}`
const filesOf = (text: string) =>
  Object.fromEntries(Array.from({ length: FILES }, (_, i) => [path(i), `${text}\n`]))

/** The last check of a pull request. */
const lastCheck = async ({ eventsOf }: PullRepository, index: number) =>
  (await eventsOf(index)).findLast(({ type }) => type === 'MergeabilityChecked')

// The limit is that of EventStoreDB.
const { server, repository } = await startOn(t, 'EventStoreDB')

t.test(
  'very many conflicting files: the list is cut, with its true count, and the others are checked',
  async (t) => {
    const own = await repository(t, 'conflicts')
    await own.branch('wide', filesOf('of the pull request'))
    const wide = await own.open('wide')
    await own.branch('narrow', { 'a.txt': 'a\n' })
    const narrow = await own.open('narrow')
    const main = await own.branch('main', filesOf('of main'), 'main')
    await until('the others are checked', async () => {
      const check = await lastCheck(own, narrow)
      return check?.type === 'MergeabilityChecked' && check.data.base === main && check.data.mergeable
    })
    await until('it is checked', async () => (await lastCheck(own, wide)) !== undefined)
    const check = await lastCheck(own, wide)
    if (check?.type !== 'MergeabilityChecked') throw new Error('it was not checked')
    t.match(check.data, { base: main, mergeable: false, conflictCount: FILES })
    t.ok(check.data.conflicts.length > 10 && check.data.conflicts.length < FILES)
    t.equal(check.data.conflicts[0], path(0))
    const { body } = await own.call('alice', 'GET', `pulls/${wide}/history`)
    const shown = body.find(({ id }: { id: string }) => id === check.id)
    t.match(shown?.data, { conflictCount: FILES }, 'the history says so')
    const page = await server.fetch('alice', `/ui/alice/conflicts/pulls/${wide}`)
    t.match(await page.text(), /and 1490 more/, 'the page says so')
  },
)

t.test(
  'a scheduled merge that fails with very many conflicting files is given up, with their number',
  async (t) => {
    const own = await repository(t, 'scheduled')
    const head = await own.branch('wide', filesOf('of the pull request'))
    const wide = await own.open('wide')
    await own.postStatus(head, 'pending')
    t.equal((await own.merge(wide, { merge_when_checks_succeed: true })).status, 201)
    await own.branch('main', filesOf('of main'), 'main')
    await own.postStatus(head, 'success')
    await until('the schedule ends', async () => (await own.typesOf(wide)).includes('ScheduledMergeRefused'))
    const refused = (await own.eventsOf(wide)).find(({ type }) => type === 'ScheduledMergeRefused')
    if (refused?.type !== 'ScheduledMergeRefused') throw new Error('the merge was not refused')
    t.match(refused.data, { errorCount: FILES })
    t.ok(refused.data.errors.length > 10 && refused.data.errors.length < FILES)
  },
)

t.test('one pull request that cannot be recorded does not end the loop for the others', async (t) => {
  const own = await repository(t, 'loops')
  await own.branch('lower', { 'l.txt': 'l\n' })
  // The first of each loop fails: the heads that move, the merge bases that move, and the checks.
  await own.branch('first', { 'f.txt': 'f\n' }, 'lower')
  await own.branch('second', { 's.txt': 's\n' }, 'lower')
  const first = await own.open('first')
  const second = await own.open('second')
  const { events } = server.services
  const { append } = events
  events.append = async (stream, recorded, expected) => {
    if (stream === pullStream(own.repoId, first)) throw new Error('not this one')
    return append.call(events, stream, recorded, expected)
  }
  const lower = (await own.tip('lower')) ?? ''
  await own.push('lower:main')
  await until(
    'the merge base of the other one moves',
    async () => (await own.get(second)).merge_base === lower,
  )
  await until('the other one is checked', async () => {
    const check = await lastCheck(own, second)
    return check?.type === 'MergeabilityChecked' && check.data.base === lower
  })
  events.append = append
})
