/** Which verdicts stand: after requests, comments, and dismissals. */
import t from 'tap'
import { startPulls, type Test } from '../pull-requests/pull-repository.ts'

const { repository } = await startPulls(t)

/** A pull request into a protected branch, and what reviewers do with it. */
async function reviewed(test: Test, name: string) {
  const made = await repository(test, name, { writers: ['bob'] })
  const { branches, open, protect, call } = made
  await branches('topic')
  await protect('main', { required_approvals: 0, block_on_rejected_reviews: true })
  const index = await open('topic')
  const reviews = `pulls/${index}/reviews`
  const requests = `pulls/${index}/requested_reviewers`
  return {
    ...made,
    index,
    review: async (event: string, login = 'bob') =>
      (await call(login, 'POST', reviews, { event, body: 'Hm' })).body,
    shown: async (id: number) => (await call('alice', 'GET', `${reviews}/${id}`)).body,
    request: (login = 'bob') => call('alice', 'POST', requests, { reviewers: [login] }),
    remove: (login = 'bob') => call('alice', 'DELETE', requests, { reviewers: [login] }),
    dismiss: (id: number) => call('alice', 'POST', `${reviews}/${id}/dismissals`, {}),
    undismiss: (id: number) => call('alice', 'POST', `${reviews}/${id}/undismissals`),
    require: (required_approvals: number) =>
      call('alice', 'PATCH', 'branch_protections/main', { required_approvals }),
  }
}
const blocked = { status: 405, message: /changes are requested by bob/ }
const missing = { status: 405, message: /needs 1 official approvals and has 0/ }

t.test(
  'a rejection blocks until its reviewer gives another verdict, however often it is asked for',
  async (t) => {
    const { index, review, request, remove, merge, shown } = await reviewed(t, 'rejected')
    const { id } = await review('REQUEST_CHANGES')
    await request()
    t.match(await merge(index), blocked, 'while the request is open')
    await review('COMMENT')
    t.match(await shown(id), { official: true, dismissed: false })
    t.match(await merge(index), blocked, 'after a comment')
    await request()
    await remove()
    t.match(await merge(index), blocked, 'after the request is removed')
    await request()
    await review('APPROVED')
    t.match(await shown(id), { official: false, dismissed: true })
    t.equal((await merge(index)).status, 200)
  },
)

t.test('an approval does not count while it is asked for again, and counts after a comment', async (t) => {
  const { index, review, request, merge, require } = await reviewed(t, 'approved')
  await require(1)
  await review('APPROVED')
  await request()
  t.match(await merge(index), missing)
  await review('COMMENT')
  t.equal((await merge(index)).status, 200)
})

t.test('to remove a request restores what it superseded, and nothing else', async (t) => {
  const { index, review, request, remove, merge, require, writer, shown } = await reviewed(t, 'restored')
  await require(1)
  const { id, official } = await review('APPROVED', 'dave')
  t.equal(official, false)
  await writer('dave')
  await request('dave')
  await remove('dave')
  t.match(await shown(id), { official: false })
  t.match(await merge(index), missing)
  await request('dave')
  await review('COMMENT', 'dave')
  t.match(await shown(id), { official: false })
})

t.test('to take back a dismissal restores a verdict that was asked for again meanwhile', async (t) => {
  const { index, review, request, remove, merge, dismiss, undismiss, require } = await reviewed(
    t,
    'undismissed',
  )
  const rejection = await review('REQUEST_CHANGES')
  await dismiss(rejection.id)
  await request()
  await remove()
  await undismiss(rejection.id)
  t.match(await merge(index), blocked)
  const approval = await review('APPROVED')
  await require(1)
  await dismiss(approval.id)
  await request()
  await remove()
  t.match(await merge(index), missing)
  await undismiss(approval.id)
  t.equal((await merge(index)).status, 200)
})
