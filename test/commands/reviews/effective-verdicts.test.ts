/** Effective verdicts after requests, comments and dismissals, by present permissions. */
import t from 'tap'
import { startTeams, UNITS } from '../../auth/team-repository.ts'
import { startPulls, type Test } from '../pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)

/** A pull request into a protected branch, and helpers for its reviewers. */
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
  'a rejection blocks until its reviewer gives another verdict, despite repeated requests',
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

t.test('removing a request restores the verdict that it superseded, and nothing else', async (t) => {
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

t.test('undoing a dismissal restores a verdict that was requested again meanwhile', async (t) => {
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

t.test(
  'approvals count by present permissions: not those of users who were removed or may not sign in',
  async (t) => {
    const { index, review, merge, require, call, writer } = await reviewed(t, 'rights')
    const [admin] = await Promise.all([server.as('admin'), server.as('erin')])
    await require(1)
    const set = (option: object) =>
      admin.admin.adminEditUser('erin', { source_id: 0, login_name: 'erin', ...option })
    await writer('erin')
    t.match(await review('APPROVED', 'erin'), { official: true })
    await call('alice', 'DELETE', 'collaborators/erin')
    t.match(await merge(index), missing, 'removed')
    await writer('erin', 'read')
    t.match(await merge(index), missing, 'may only read')
    await writer('erin')
    await set({ prohibit_login: true })
    t.match(await merge(index), missing, 'blocked')
    await call('alice', 'PATCH', 'branch_protections/main', {
      enable_approvals_whitelist: true,
      approvals_whitelist_username: ['erin'],
    })
    t.match(await merge(index), missing, 'blocked, also where the rule names erin')
    await set({ prohibit_login: false })
    t.equal((await merge(index)).status, 200)
  },
)

t.test('a request to a team counts while the team has the repository', async (t) => {
  const teams = await startTeams(t)
  const { alice, onApp } = teams
  await alice.orgs.orgCreateTeam('acme', {
    name: 'elsewhere',
    permission: 'write',
    units: UNITS,
  })
  const here = await teams.team('here', 'write', 'bob')
  await onApp('alice', 'POST', 'branch_protections', {
    rule_name: 'main',
    block_on_official_review_requests: true,
    block_admin_merge_override: true,
  })
  const index = await teams.open('topic')
  const asked = await onApp('alice', 'POST', `pulls/${index}/requested_reviewers`, {
    team_reviewers: ['elsewhere', 'here'],
  })
  t.match(asked.body, [
    { team: { name: 'elsewhere' }, official: false },
    { team: { name: 'here' }, official: true },
  ])
  const merge = () => onApp('alice', 'POST', `pulls/${index}/merge`, { Do: 'merge' })
  t.match(await merge(), { status: 405, message: /a review is requested from here$/ })
  await alice.teams.orgRemoveTeamRepository(here, 'acme', 'app')
  t.equal((await merge()).status, 200, 'nobody of it can answer any more')
})
