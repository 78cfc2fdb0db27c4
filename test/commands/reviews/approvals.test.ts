import t from 'tap'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { repository } = await startPulls(t)

t.test('merge.2: a merge needs the required official approvals', async (t) => {
  const { branches, open, merge, protect, call, tip } = await repository(t, 'approvals', {
    writers: ['bob', 'carol'],
  })
  await branches('topic')
  await protect('main', { required_approvals: 2 })
  const index = await open('topic')
  const main = await tip('main')
  const approve = (login: string) => call(login, 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  const refused = (has: number) => ({
    status: 405,
    message: `protection "main": needs 2 official approvals and has ${has}`,
  })
  t.match(await merge(index), refused(0))
  t.match((await approve('dave')).body, { official: false })
  await approve('bob')
  await approve('bob')
  t.match(await merge(index), refused(1), 'of each reviewer the last one, and none of a mere reader')
  t.match(await merge(index, { force_merge: true }, 'bob'), refused(1), 'a writer has no force')
  const { body: second } = await approve('carol')
  await call('alice', 'POST', `pulls/${index}/reviews/${second.id}/dismissals`, {})
  t.match(await merge(index), refused(1), 'a dismissed one does not count')
  await call('alice', 'POST', `pulls/${index}/reviews/${second.id}/undismissals`)
  await call('alice', 'POST', `pulls/${index}/requested_reviewers`, { reviewers: ['carol'] })
  t.match(await merge(index), refused(1), 'nor one of a reviewer who is asked again')
  t.equal(await tip('main'), main)
  await call('alice', 'DELETE', `pulls/${index}/requested_reviewers`, { reviewers: ['carol'] })
  t.equal((await merge(index)).status, 200)
  t.equal((await approve('carol')).status, 422, 'it is merged')
})

t.test('merge.2: of a protection that names approvers only theirs count, and force passes', async (t) => {
  const { branches, open, merge, protect, call } = await repository(t, 'named', {
    writers: ['bob', 'carol'],
  })
  await branches('topic', 'bound', 'moved', 'free')
  const named = {
    required_approvals: 1,
    enable_approvals_whitelist: true,
    approvals_whitelist_username: ['carol'],
  }
  await protect('main', named)
  await protect('strict', { ...named, block_admin_merge_override: true })
  await call('alice', 'POST', 'branches', { new_branch_name: 'strict' })
  const index = await open('topic')
  const review = (login: string, number: number) =>
    call(login, 'POST', `pulls/${number}/reviews`, { event: 'APPROVED' })
  t.match((await review('bob', index)).body, { official: false })
  t.match(await merge(index), { status: 405, message: /needs 1 official/ })
  t.match((await review('carol', index)).body, { official: true })
  t.equal((await merge(index)).status, 200)
  const moved = await open('moved', { base: 'free' })
  t.match((await review('bob', moved)).body, { official: true }, 'where nothing is protected writers are')
  await call('alice', 'PATCH', `pulls/${moved}`, { base: 'main' })
  t.match(await merge(moved), { status: 405, message: /needs 1 official/ }, 'another base asks for others')
  t.equal((await merge(moved, { force_merge: true })).status, 200, 'an admin may')
})

t.test('merge.2: rejections and open requests block where the protection says so', async (t) => {
  const { branches, open, merge, protect, call } = await repository(t, 'blocked', {
    writers: ['bob', 'carol'],
  })
  await branches('topic')
  const rule = { block_on_rejected_reviews: true, block_on_official_review_requests: true }
  await protect('main', { ...rule, block_admin_merge_override: true })
  const index = await open('topic')
  const review = (login: string, event: string) =>
    call(login, 'POST', `pulls/${index}/reviews`, { event, body: 'Hm' })
  await review('bob', 'REQUEST_CHANGES')
  t.match(await merge(index), { status: 405, message: /changes are requested by bob/ })
  t.match(await merge(index, { force_merge: true }), { status: 405 }, 'the rule binds admins')
  await review('dave', 'REQUEST_CHANGES')
  await review('bob', 'APPROVED')
  await call('alice', 'POST', `pulls/${index}/requested_reviewers`, { reviewers: ['carol', 'dave'] })
  t.match(await merge(index), { status: 405, message: /a review is requested from carol$/ })
  await review('carol', 'COMMENT')
  t.equal((await merge(index)).status, 200, 'what mere readers say does not block')
})

t.test('approvals of an earlier state are stale, are ignored, or are dismissed with the push', async (t) => {
  const { branch, open, merge, protect, call, typesOf, get } = await repository(t, 'stale', {
    writers: ['bob'],
  })
  await branch('topic', { a: 'a' })
  await branch('other', { b: 'b' })
  await protect('main', { required_approvals: 1, ignore_stale_approvals: true })
  const [index, other] = [await open('topic'), await open('other')]
  const approve = async (number: number) =>
    (await call('bob', 'POST', `pulls/${number}/reviews`, { event: 'APPROVED' })).body
  const first = await approve(index)
  const shown = async () => (await call('bob', 'GET', `pulls/${index}/reviews/${first.id}`)).body
  await branch('topic', { c: 'c' }, 'topic')
  t.match(await shown(), { stale: true, official: true, dismissed: false, commit_id: first.commit_id })
  t.match(await merge(index), { status: 405, message: /needs 1 official approvals and has 0/ })
  await call('alice', 'PATCH', 'branch_protections/main', { ignore_stale_approvals: false })
  await approve(other)
  t.equal((await merge(other)).status, 200)
  // The base is merged into the head: what the pull request changes stays the same.
  await approve(index)
  t.equal((await call('alice', 'POST', `pulls/${index}/update`)).status, 200)
  const reviews = async () => (await call('bob', 'GET', `pulls/${index}/reviews`)).body
  t.match((await reviews()).at(-1), { stale: false })
  await call('alice', 'PATCH', 'branch_protections/main', { dismiss_stale_approvals: true })
  await branch('topic', { d: 'd' }, (await get(index)).head?.sha)
  t.match((await reviews()).at(-1), { stale: true, dismissed: true })
  const types = await typesOf(index)
  t.equal(types.at(types.indexOf('ReviewsOutdated') - 1), 'PullRequestHeadMoved')
  t.match(await merge(index), { status: 405 })
})

t.test('a scheduled merge happens after the approval, and waits without it', async (t) => {
  const { branches, open, merge, protect, call, get, postStatus, typesOf } = await repository(
    t,
    'scheduled',
    { writers: ['bob'] },
  )
  await branches('topic')
  await protect('main', { required_approvals: 1 })
  const index = await open('topic')
  const head = (await get(index)).head?.sha ?? ''
  t.equal((await merge(index, { merge_when_checks_succeed: true })).status, 201)
  await postStatus(head, 'success')
  t.equal((await get(index)).merged, false)
  t.equal((await typesOf(index)).at(-1), 'MergeScheduled', 'it waits on')
  await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  await until('it is merged', async () => (await get(index)).merged === true)
})
