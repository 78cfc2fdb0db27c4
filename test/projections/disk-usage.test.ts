import t from 'tap'
import { createDiskUsage } from '../../src/projections/disk-usage.ts'
import { openStores } from '../stores.ts'

const DAY = 24 * 3_600_000

t.test('maintenance whose time a clock has set that was ahead is due now', async (t) => {
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
