/** Whitelists with teams apply to the current members, while the team has the repository. */
import t from 'tap'
import { workTree } from '../git-client.ts'
import { until } from '../until.ts'
import { startTeams, UNITS } from './team-repository.ts'

const teams = await startTeams(t)
const { server, alice, call, onApp } = teams
const core = await teams.team('core', 'write', 'bob', 'carol')
const merge = (login: string, index: number, option: object = {}) =>
  onApp(login, 'POST', `pulls/${index}/merge`, { Do: 'merge', ...option })
const protect = (rule: string, option: object) =>
  onApp('alice', 'POST', 'branch_protections', { rule_name: rule, ...option })

t.test('whitelists name teams of the organization, and keep them by their ids', async (t) => {
  const wanted = {
    enable_push: true,
    enable_push_whitelist: true,
    push_whitelist_teams: ['core'],
    enable_merge_whitelist: true,
    merge_whitelist_teams: ['Owners', 'core'],
    enable_approvals_whitelist: true,
    approvals_whitelist_teams: ['core'],
  }
  t.match(await protect('kept', { ...wanted, push_whitelist_teams: ['Core', 'core'] }), {
    status: 201,
    body: { ...wanted, push_whitelist_usernames: [], merge_whitelist_usernames: [] },
  })
  await alice.teams.orgEditTeam(core, { name: 'center', permission: 'write', units: UNITS })
  const renamed = { push_whitelist_teams: ['center'], merge_whitelist_teams: ['Owners', 'center'] }
  t.match((await onApp('alice', 'GET', 'branch_protections/kept')).body, renamed)
  await alice.teams.orgEditTeam(core, { name: 'core', permission: 'write', units: UNITS })
  const other = await onApp('alice', 'PATCH', 'branch_protections/kept', {
    push_whitelist_usernames: ['dave'],
    merge_whitelist_teams: ['core'],
    enable_approvals_whitelist: false,
  })
  t.match(other.body, {
    push_whitelist_usernames: ['dave'],
    push_whitelist_teams: ['core'],
    merge_whitelist_teams: ['core'],
    approvals_whitelist_teams: [],
  })
  for (const [field, option] of [
    ['push_whitelist_teams', { push_whitelist_teams: ['core'] }],
    ['merge_whitelist_teams', { enable_merge_whitelist: true, merge_whitelist_teams: ['nobody'] }],
    ['approvals_whitelist_teams', { approvals_whitelist_teams: ['core'] }],
    ['force_push_allowlist_teams', { force_push_allowlist_teams: ['core'] }],
  ] as const) {
    t.match(await protect('wrong', option), { status: 422, message: new RegExp(`^${field}: `) }, field)
  }
})

t.test('pushes and commits follow the current teams, and a deleted team no longer counts', async (t) => {
  const late = await teams.team('late', 'write', 'bob', 'carol')
  await teams.branch('guarded')
  await protect('guarded', { enable_push: true, enable_push_whitelist: true, push_whitelist_teams: ['late'] })
  const work = await workTree(t, server.gitUrl('bob', 'acme/app'))
  await work.git('checkout', '-q', 'guarded')
  const push = () => work.git('push', '-q', 'origin', 'HEAD:guarded')
  const commit = async (login: string, path: string) =>
    (await onApp(login, 'POST', `contents/${path}`, { content: 'eA==', branch: 'guarded' })).status
  const canPush = async () => (await onApp('bob', 'GET', 'branches/guarded')).body.user_can_push
  await work.commit('one', { a: 'a' })
  await push()
  t.same([await commit('alice', 'x'), await canPush()], [403, true], 'an admin is not in the team')
  await alice.teams.orgRemoveTeamMember(late, 'bob')
  await work.commit('two', { b: 'b' })
  await t.rejects(push(), /protected/, 'bob still writes by his other team')
  t.same([await commit('carol', 'y'), await commit('bob', 'z'), await canPush()], [201, 403, false])
  await alice.teams.orgRemoveTeamRepository(late, 'acme', 'app')
  t.equal(await commit('carol', 'z'), 403, 'the team has lost the repository')
  await alice.teams.orgAddTeamRepository(late, 'acme', 'app')
  t.equal(await commit('carol', 'z'), 201)
  await alice.teams.orgDeleteTeam(late)
  t.equal(await commit('carol', 'zz'), 403)
  t.match((await onApp('alice', 'GET', 'branch_protections/guarded')).body, {
    enable_push_whitelist: true,
    push_whitelist_teams: [],
  })
})

t.test('merge.2: merges, also scheduled ones, and approvals follow the current teams', async (t) => {
  const [ours, later] = [await teams.open('ours'), await teams.open('later')]
  const reviewers = await teams.team('reviewers', 'read', 'dave')
  await protect('main', {
    enable_merge_whitelist: true,
    merge_whitelist_teams: ['core'],
    required_approvals: 1,
    enable_approvals_whitelist: true,
    approvals_whitelist_teams: ['reviewers'],
    block_on_official_review_requests: true,
    block_admin_merge_override: true,
  })
  const approve = (login: string, index: number) =>
    onApp(login, 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  t.match((await approve('carol', ours)).body, { official: false })
  t.match((await approve('dave', ours)).body, { official: true })
  t.match(await merge('alice', ours), { status: 405, message: /not allowed to merge/ })
  await alice.teams.orgRemoveTeamMember(reviewers, 'dave')
  t.match(await merge('bob', ours), { status: 405, message: /needs 1 official approvals and has 0/ })
  await alice.teams.orgAddTeamMember(reviewers, 'dave')

  const asked = { team_reviewers: ['reviewers', 'core'] }
  t.match((await onApp('alice', 'POST', `pulls/${ours}/requested_reviewers`, asked)).body, [
    { official: true },
    { official: false },
  ])
  t.match(await merge('bob', ours), { status: 405, message: /a review is requested from reviewers$/ })
  await alice.teams.orgDeleteTeam(reviewers)
  t.match(await merge('bob', ours), { status: 405, message: /needs 1 official/ }, 'nobody waits for it now')
  await onApp('alice', 'PATCH', 'branch_protections/main', { required_approvals: 0 })
  t.equal((await merge('bob', ours)).status, 200)

  const main = await onApp('alice', 'GET', 'branches/main')
  await onApp('alice', 'POST', `statuses/${main.body.commit.id}`, { state: 'success', context: 'ci' })
  t.equal((await merge('bob', later, { merge_when_checks_succeed: true })).status, 201)
  await alice.teams.orgRemoveTeamMember(core, 'bob')
  // He may still write.
  await onApp('alice', 'PUT', 'collaborators/bob', { permission: 'write' })
  const { body: pull } = await onApp('alice', 'GET', `pulls/${later}`)
  await onApp('alice', 'POST', `statuses/${pull.head.sha}`, { state: 'success', context: 'ci' })
  await until('the schedule has ended', async () => {
    const { body: history } = await onApp('alice', 'GET', `pulls/${later}/history?limit=50`)
    return history.some(({ type }: { type: string }) => type === 'ScheduledMergeRefused')
  })
  t.match((await call('alice', 'GET', `repos/acme/app/pulls/${later}`)).body, { merged: false })
})

t.test(
  'a protected tag is open to the teams that its protection names, also by a regular expression',
  async (t) => {
    const taggers = await teams.team('taggers', 'write', 'carol')
    const named = { name_pattern: '/^v\\d+$/', whitelist_teams: ['taggers'] }
    const made = await onApp('alice', 'POST', 'tag_protections', named)
    t.match(made, { status: 201, body: { ...named, whitelist_usernames: [] } })
    const tag = async (login: string, name: string) =>
      (await onApp(login, 'POST', 'tags', { tag_name: name })).status
    t.same([await tag('alice', 'v1'), await tag('alice', 'v1x'), await tag('carol', 'v1')], [422, 201, 201])
    const work = await workTree(t, server.gitUrl('carol', 'acme/app'))
    await work.git('tag', 'v2')
    await work.git('tag', 'v3')
    await work.git('push', '-q', 'origin', 'v2')
    await alice.teams.orgRemoveTeamMember(taggers, 'carol')
    await alice.teams.orgAddTeamMember(core, 'carol')
    await t.rejects(work.git('push', '-q', 'origin', 'v3'), /the tag is protected/)
    const path = `tag_protections/${made.body.id}`
    t.match((await onApp('alice', 'PATCH', path, { name_pattern: 'w*' })).body, {
      name_pattern: 'w*',
      whitelist_teams: ['taggers'],
    })
    t.match(
      (await onApp('alice', 'PATCH', path, { whitelist_teams: [], whitelist_usernames: ['bob'] })).body,
      {
        whitelist_usernames: ['bob'],
        whitelist_teams: [],
      },
    )
    for (const [status, option] of [
      [422, { name_pattern: 'x', whitelist_teams: ['nobody'] }],
      [400, { name_pattern: 'x', whitelist_teams: [] }],
      [422, { name_pattern: '/(a{1000}){1000}/', whitelist_teams: ['core'] }],
    ] as const) {
      t.equal(
        (await onApp('alice', 'POST', 'tag_protections', option)).status,
        status,
        JSON.stringify(option),
      )
    }
  },
)
