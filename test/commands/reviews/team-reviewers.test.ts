/** Requests for reviews of teams. */
import t from 'tap'
import { startTeams } from '../../auth/team-repository.ts'

const teams = await startTeams(t)
const { alice, call, onApp } = teams
const core = await teams.team('Core', 'write', 'bob', 'carol')
await teams.team('readers', 'read', 'dave')

const teamsOf = async (index: number) => {
  const { data } = await alice.repos.repoGetPullRequest('acme', 'app', index)
  return data.requested_reviewers_teams?.map(({ name }) => name)
}

t.test('a team is requested, its members are notified, and the verdict of one answers', async (t) => {
  const index = await teams.open('asked')
  const path = `pulls/${index}/requested_reviewers`
  const unread = async (login: string) => (await call(login, 'GET', 'notifications')).body.length
  const before = await unread('carol')
  const asked = { team_reviewers: ['core', 'Core', 'Owners', 'readers'] }
  t.match(await onApp('dave', 'POST', path, asked), { status: 403 }, 'not by a reader')
  t.match(await onApp('alice', 'POST', path, asked), {
    status: 201,
    body: [
      { state: 'REQUEST_REVIEW', user: null, team: { id: core, name: 'Core' }, official: true },
      { state: 'REQUEST_REVIEW', user: null, team: { name: 'Owners', permission: 'owner' }, official: true },
      { state: 'REQUEST_REVIEW', team: { name: 'readers' }, official: false },
    ],
  })
  t.strictSame((await onApp('alice', 'POST', path, asked)).body, [], 'they are asked already')
  t.strictSame(await teamsOf(index), ['Core', 'Owners', 'readers'])
  t.equal(await unread('carol'), before + 1)
  const wanted = async (login: string) =>
    (await call(login, 'GET', 'repos/issues/search?review_requested=true')).body.length
  t.strictSame([await wanted('bob'), await wanted('dave'), await wanted('alice')], [1, 1, 1])

  const review = (login: string, event: string) =>
    onApp(login, 'POST', `pulls/${index}/reviews`, { event, body: 'Hm' })
  await review('bob', 'COMMENT')
  t.strictSame(await teamsOf(index), ['Core', 'Owners', 'readers'], 'a comment does not answer')
  t.match(await review('bob', 'APPROVED'), { status: 200 })
  t.strictSame(await teamsOf(index), ['Owners', 'readers'])
  t.equal(await wanted('carol'), 0)
  t.match(await onApp('dave', 'DELETE', path, { team_reviewers: ['readers'] }), { status: 403 })
  t.match(await onApp('bob', 'DELETE', path, { team_reviewers: ['readers', 'Owners'] }), { status: 204 })
  t.strictSame(await teamsOf(index), [])
  const { body: timeline } = await onApp('alice', 'GET', `issues/${index}/timeline`)
  t.match(
    timeline.filter(({ type }: { type: string }) => type === 'review_request'),
    [
      { assignee: null, assignee_team: { name: 'Core' }, removed_assignee: false, user: { login: 'alice' } },
      { assignee_team: { name: 'Owners' }, removed_assignee: false },
      { assignee_team: { name: 'readers' }, removed_assignee: false },
      { assignee_team: { name: 'readers' }, removed_assignee: true, user: { login: 'bob' } },
      { assignee_team: { name: 'Owners' }, removed_assignee: true },
    ],
  )
  const { body: history } = await onApp('alice', 'GET', `pulls/${index}/history?limit=50`)
  t.match(
    history.map(({ type }: { type: string }) => type).filter((type: string) => type.startsWith('Team')),
    [...Array(3).fill('TeamReviewRequested'), ...Array(2).fill('TeamReviewRequestRemoved')],
  )
})

t.test('an unknown team, or one without access, is refused', async (t) => {
  const index = await teams.open('refused')
  const path = `pulls/${index}/requested_reviewers`
  t.match(await onApp('alice', 'POST', path, { team_reviewers: ['nobody'] }), {
    status: 404,
    message: /team/,
  })
  await alice.orgs.createOrgRepo('acme', { name: 'own', auto_init: true, private: true })
  await teams.branch('x', 'own')
  await call('alice', 'POST', 'repos/acme/own/pulls', { head: 'x', base: 'main', title: 'x' })
  t.match(
    await call('alice', 'POST', 'repos/acme/own/pulls/1/requested_reviewers', { team_reviewers: ['core'] }),
    { status: 422, message: /team_reviewers: Core may not read/ },
  )
  t.strictSame(await teamsOf(index), [])
})
