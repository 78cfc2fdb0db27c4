import t from 'tap'
import { isDiskFull } from '../src/storage/disk-full.ts'
import { watchFreeSpace } from '../src/storage/free-space.ts'
import { sqliteError } from '../src/storage/sqlite/errors.ts'

t.test('a full disk is found behind other errors, whichever component detected it', async (t) => {
  const withCode = (code: string) => Object.assign(new Error('x'), { code })
  for (const error of [
    withCode('ENOSPC'),
    withCode('EDQUOT'),
    withCode('EFBIG'),
    sqliteError('x', 13),
    new Error('database or disk is full'),
    new Error('fatal: write error: No space left on device'),
    new Error('the log', { cause: new Error('the file', { cause: withCode('ENOSPC') }) }),
  ]) {
    t.ok(isDiskFull(error), error.message)
  }
  const circle = new Error('a circle')
  circle.cause = circle
  for (const error of [new Error('x'), withCode('EACCES'), circle, 'No space left on device', undefined])
    t.notOk(isDiskFull(error))
})

t.test('free space is read once for all callers within a moment', async (t) => {
  let asked = 0
  const read = async () => {
    asked += 1
    return 1000
  }
  const places = { data: '/data', git: '/git', attachments: '/attachments' }
  const space = watchFreeSpace(places, 600, { read, freshMs: 60_000 })
  await Promise.all([space.require('git'), space.require('git', 400)])
  await t.rejects(space.require('git', 401), { name: 'Refused', message: /nearly full/ })
  t.equal(asked, 3, 'once for each place')
  await watchFreeSpace(places, 0, { read }).require('git', 5000)
  t.equal(asked, 3, 'without a reserve nobody asks')
})

t.test('each of the disks of git, the attachments and the log keeps its reserve', async (t) => {
  const free = new Map([
    ['/data', 700],
    ['/git', 5000],
    ['/attachments', 900],
  ])
  const places = { data: '/data', git: '/git', attachments: '/attachments' }
  const read = async (directory: string) => free.get(directory) ?? 0
  const space = watchFreeSpace(places, 600, { read, freshMs: 0 })
  await space.require('git', 4400)
  await space.require('attachments', 300)
  await t.rejects(space.require('attachments', 301), { name: 'Refused' })
  await t.rejects(space.require('git', 4401), { name: 'Refused' })
  for (const place of free.keys()) {
    const before = free.get(place) ?? 0
    free.set(place, 599)
    await t.rejects(space.require('git'), { name: 'Refused' }, place)
    free.set(place, before)
  }
})
