import t from 'tap'
import {
  decideLock,
  decideUnlock,
  type LockState,
  lockDecider,
} from '../../../src/commands/lfs/lock.decider.ts'
import { isRefusal } from '../../../src/errors/refusal.ts'
import { startTestServer } from '../../start-server.ts'
import { lfsOf } from './lfs-client.ts'

const ALICE = { id: 1, login: 'alice' }
const BOB = { id: 2, login: 'bob' }
const lock = { id: 7, path: 'a.psd', owner: ALICE, ref: null }

t.test('a path has one lock; its owner ends it, and others do with force', async (t) => {
  const none = lockDecider.initialState
  const [locked] = decided(decideLock(none, 3, lock))
  t.same(locked, { type: 'LfsLocked', data: { repoId: 3, lock } })
  const held: LockState = { held: lock }
  t.match(decideLock(held, 3, { ...lock, id: 8, owner: BOB }), { refused: 'conflict' })
  t.match(decideUnlock(held, 3, { lockId: 7, by: BOB, force: false }), { refused: 'forbidden' })
  t.match(decideUnlock(held, 3, { lockId: 8, by: ALICE, force: true }), { refused: 'notFound' })
  t.match(decideUnlock(none, 3, { lockId: 7, by: ALICE, force: true }), { refused: 'notFound' })
  t.match(decided(decideUnlock(held, 3, { lockId: 7, by: ALICE, force: true })), [
    { data: { forced: false } },
  ])
  const [unlocked] = decided(decideUnlock(held, 3, { lockId: 7, by: BOB, force: true }))
  t.match(unlocked, { type: 'LfsUnlocked', data: { lockId: 7, path: 'a.psd', by: BOB, forced: true } })
})

function decided(decision: ReturnType<typeof decideLock>) {
  if (isRefusal(decision)) throw new Error(decision.message)
  return decision
}

t.test('locks over HTTP', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'art' })
  await alice.user.createCurrentUserRepo({ name: 'other' })
  await alice.repos.repoAddCollaborator('alice', 'art', 'bob', { permission: 'write' })
  const { json } = lfsOf(server, 'alice/art')
  const other = lfsOf(server, 'alice/other')
  const take = (login: string, path: string) =>
    json(login, 'POST', '/locks', { path, ref: { name: 'refs/heads/main' } })

  const taken = await take('alice', 'a/../b.psd')
  t.equal(taken.status, 201)
  t.match(taken.body, { lock: { id: /^\d+$/, path: 'b.psd', owner: { name: 'alice' }, locked_at: /Z$/ } })
  const again = await take('bob', 'b.psd')
  t.equal(again.status, 409)
  t.match(again.body, { lock: taken.body.lock, message: /locked by alice/ })
  t.equal((await take('bob', '..')).status, 422)
  t.equal((await take('bob', '')).status, 422)
  for (const path of ['a\0b.psd', 'a\ud800.psd']) {
    t.equal((await take('bob', path)).status, 422, `${JSON.stringify(path)} is not a valid path`)
  }
  const longRef = { path: 'd.psd', ref: { name: 'r'.repeat(4097) } }
  t.equal((await json('bob', 'POST', '/locks', longRef)).status, 422, 'the log keeps the name of the ref')
  const both = await Promise.all([take('alice', 'race.psd'), take('bob', 'race.psd')])
  t.same(both.map(({ status }) => status).sort(), [201, 409], 'of two at the same time one has it')
  const third = await take('bob', 'c.psd')

  const list = await json(null, 'GET', '/locks')
  t.equal(list.body.locks.length, 3)
  t.match((await json(null, 'GET', '/locks?path=c.psd')).body.locks, [{ owner: { name: 'bob' } }])
  for (const path of ['./c.psd', '/c.psd', 'a/../c.psd']) {
    t.match((await json(null, 'GET', `/locks?path=${path}`)).body.locks, [{ path: 'c.psd' }], path)
  }
  t.equal((await json(null, 'GET', '/locks?path=.')).status, 422, 'not the path of a file')
  t.match((await json(null, 'GET', `/locks?id=${taken.body.lock.id}`)).body.locks, [{ path: 'b.psd' }])
  t.same((await json(null, 'GET', '/locks?id=999')).body.locks, [])
  t.same((await other.json(null, 'GET', `/locks?id=${taken.body.lock.id}`)).body.locks, [])
  const paths: string[] = []
  for (let cursor = ''; ; ) {
    const { body } = await json(null, 'GET', `/locks?limit=1&cursor=${cursor}`)
    paths.push(...body.locks.map(({ path }: { path: string }) => path))
    if (body.next_cursor === undefined) break
    cursor = body.next_cursor
  }
  t.same(paths, ['b.psd', 'race.psd', 'c.psd'], 'page by page')

  const verified = await json('bob', 'POST', '/locks/verify', {})
  t.ok(verified.body.ours.some(({ path }: { path: string }) => path === 'c.psd'))
  t.ok(verified.body.theirs.some(({ path }: { path: string }) => path === 'b.psd'))

  const end = (login: string, id: string, body: object = {}) =>
    json(login, 'POST', `/locks/${id}/unlock`, body)
  t.equal((await end('bob', taken.body.lock.id)).status, 403)
  t.equal((await other.json('alice', 'POST', `/locks/${taken.body.lock.id}/unlock`, {})).status, 404)
  const forced = await end('bob', taken.body.lock.id, { force: true })
  t.match(forced, { status: 200, body: { lock: { path: 'b.psd' } } })
  t.equal((await end('alice', taken.body.lock.id)).status, 404)
  t.equal((await end('bob', third.body.lock.id)).status, 200)
  t.equal((await take('bob', 'b.psd')).status, 201, 'it can be locked again')

  const keyed = () =>
    server.fetch('alice', '/alice/art.git/info/lfs/locks', {
      method: 'POST',
      body: JSON.stringify({ path: 'keyed.psd' }),
      headers: { 'content-type': 'application/vnd.git-lfs+json', 'idempotency-key': 'one lock' },
    })
  const mine = JSON.parse(await (await keyed()).text())
  t.same(await (await keyed()).json(), mine, 'a repeated request shows the same lock')
  t.equal((await end('alice', mine.lock.id)).status, 200)
  t.equal((await take('bob', 'keyed.psd')).status, 201)
  t.equal((await keyed()).status, 409, "and never another one's")
  const history = await server.fetch('alice', '/api/v1/repos/alice/art/history?type=LfsUnlocked')
  t.match(await history.json(), [{ data: { path: 'b.psd', forced: true } }, { data: { forced: false } }])
})
