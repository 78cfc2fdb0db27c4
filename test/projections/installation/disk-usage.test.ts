// In a process of its own: it sets the clock.
import t from 'tap'
import { createDiskUsage } from '../../../src/projections/installation/disk-usage.ts'
import { clockOf } from '../../set-clock.ts'
import { openStores } from '../../stores.ts'

const DAY = 24 * 3_600_000

t.test('maintenance scheduled by a clock that was ahead is due now', async (t) => {
  const usage = createDiskUsage(openStores(t).views)
  await usage.prepare()
  const now = Date.now()
  for (const [repoId, dueAt] of [
    [1, 0],
    [2, now - DAY],
    [3, now + 16 * DAY],
    [4, now + 365 * DAY],
  ] as const) {
    const bytes = { gitBytes: 0, attachmentBytes: 0, totalBytes: 0 }
    const measuredAt = new Date(now).toISOString()
    await usage.put({ repoId, ownerId: 1, ...bytes, measuredAt, pending: false, dueAt })
  }
  const due = await usage.waiting(now, 10)
  t.same(
    due.map(({ repoId }) => repoId),
    [2, 4],
  )
})

t.test('unmeasured writes count, even if the clock is set forward meanwhile', async (t) => {
  const setClock = clockOf(t)
  const usage = createDiskUsage(openStores(t).views)
  await usage.prepare()
  const repository = { ownerId: 1, repoId: 1 }
  const reservation = await usage.reserve(repository, 100, 150)
  t.equal(await usage.reserve(repository, 100, 150), undefined, 'too much together')
  reservation?.end('written')
  setClock(3_600_000)
  t.equal(await usage.totalOf(1), 100)
  t.equal(await usage.reserve(repository, 100, 150), undefined)
  const measured = { gitBytes: 90, attachmentBytes: 0, totalBytes: 90, pending: false, dueAt: 0 }
  await usage.put({ ...repository, ...measured, measuredAt: new Date().toISOString() })
  t.equal(await usage.totalOf(1), 90, 'once it is measured, that counts')
})
