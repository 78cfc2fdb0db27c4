import t from 'tap'
import { withoutCounters } from '../../queries/history/replay/recorded-answers.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [alice, bob] = await Promise.all([server.as('alice'), server.as('bob')])
const create = (name: string) => alice.user.createCurrentUserRepo({ name, auto_init: true })
type Edit = Parameters<typeof alice.repos.repoEdit>[2]
const edit = async (name: string, change: NonNullable<Edit>) =>
  (await alice.repos.repoEdit('alice', name, change)).data
const patch = (name: string, change: object) =>
  server.fetch('alice', `/api/v1/repos/alice/${name}`, { method: 'PATCH', body: JSON.stringify(change) })
const read = async (name: string) => (await alice.repos.repoGet('alice', name)).data

const DEFAULTS = {
  allow_merge_commits: true,
  allow_rebase: true,
  allow_rebase_explicit: true,
  allow_squash_merge: true,
  allow_fast_forward_only_merge: true,
  allow_manual_merge: false,
  allow_rebase_update: true,
  default_delete_branch_after_merge: false,
  default_merge_style: 'merge',
  default_allow_maintainer_edit: false,
}

t.test("a new repository has Gitea's merge settings", async (t) => {
  t.match((await create('fresh')).data, DEFAULTS)
  t.match(await read('fresh'), { ...DEFAULTS, has_pull_requests: true, forks_count: 0, fork: false })
})

t.test('each merge setting is changed by its own field and by no other', async (t) => {
  await create('each')
  const changes = [
    { allow_rebase: false },
    { allow_rebase_explicit: false },
    { allow_squash_merge: false },
    { allow_fast_forward_only_merge: false },
    { allow_manual_merge: true },
    { allow_rebase_update: false },
    { default_delete_branch_after_merge: true },
    { default_allow_maintainer_edit: true },
    { default_merge_style: 'manually-merged' },
    { allow_merge_commits: false },
  ]
  let expected: typeof DEFAULTS = DEFAULTS
  for (const change of changes) {
    expected = { ...expected, ...change }
    t.match(await edit('each', change), expected, `answered: ${JSON.stringify(change)}`)
    t.match(await read('each'), expected, `read: ${JSON.stringify(change)}`)
  }
  t.match(await edit('each', DEFAULTS), DEFAULTS, 'and all of them back at once')
})

t.test('an edit without merge settings, or one that changes nothing, leaves them', async (t) => {
  const { id } = (await create('kept')).data
  await edit('kept', { allow_rebase: false, default_merge_style: 'squash' })
  const events = async () => {
    let n = 0
    for await (const _ of server.services.events.readStream(`repo-${id}`)) n += 1
    return n
  }
  const before = await events()
  await edit('kept', { allow_rebase: false, default_merge_style: 'squash' })
  t.equal(await events(), before)
  t.match(await edit('kept', { description: 'Words' }), {
    ...DEFAULTS,
    allow_rebase: false,
    default_merge_style: 'squash',
  })
})

t.test(
  'an unknown or forbidden default merge style gives 422 with the field, and changes nothing',
  async (t) => {
    await create('strict')
    const bad = [
      { default_merge_style: 'octopus' },
      { default_merge_style: '' },
      { default_merge_style: 'manually-merged' },
      { default_merge_style: 'squash', allow_squash_merge: false },
      { default_merge_style: 'manually-merged', name: 'moved', private: true, default_branch: 'main' },
    ]
    const before = withoutCounters(await read('strict'))
    for (const change of bad) {
      const answer = await patch('strict', change)
      t.equal(answer.status, 422, JSON.stringify(change))
      t.match(await answer.json(), { message: /default_merge_style/, errors: [/^default_merge_style: /] })
      t.strictSame(withoutCounters(await read('strict')), before)
    }
    t.equal((await create('moved')).status, 201, 'a refused rename holds no name')
    t.match(await edit('strict', { default_merge_style: 'squash', allow_merge_commits: false }), {
      allow_merge_commits: false,
      default_merge_style: 'squash',
    })
    t.match(await edit('strict', { allow_squash_merge: false }), {
      allow_squash_merge: false,
      default_merge_style: 'rebase',
    })
    for (const change of [{ allow_rebase: 'yes' }, { default_merge_style: 7 }]) {
      t.equal((await patch('strict', change)).status, 422, JSON.stringify(change))
    }
  },
)

t.test('only an admin of the repository changes merge settings', async (t) => {
  await create('mine')
  const change = { allow_rebase: false }
  t.equal(await statusOf(bob.repos.repoEdit('alice', 'mine', change)), 403)
  t.equal(await statusOf(server.anonymous.repos.repoEdit('alice', 'mine', change)), 401)
  t.equal(await statusOf(alice.repos.repoEdit('alice', 'nothing', change)), 404)
  await alice.repos.repoAddCollaborator('alice', 'mine', 'bob', { permission: 'write' })
  t.equal(await statusOf(bob.repos.repoEdit('alice', 'mine', change)), 403)
  t.match(await read('mine'), DEFAULTS)
})

t.test(
  'settings that are changed at the same time are all kept, and the default stays allowed',
  async (t) => {
    await create('busy')
    await Promise.all([
      edit('busy', { allow_rebase: false }),
      edit('busy', { allow_squash_merge: false }),
      edit('busy', { allow_manual_merge: true }),
    ])
    t.match(await read('busy'), {
      ...DEFAULTS,
      allow_rebase: false,
      allow_squash_merge: false,
      allow_manual_merge: true,
    })

    const statuses = await Promise.all([
      statusOf(alice.repos.repoEdit('alice', 'busy', { default_merge_style: 'rebase-merge' })),
      statusOf(alice.repos.repoEdit('alice', 'busy', { allow_rebase_explicit: false })),
    ])
    t.ok(statuses.includes(200))
    const { allow_rebase_explicit: allowed, default_merge_style: style } = await read('busy')
    t.notOk(style === 'rebase-merge' && !allowed)
  },
)

t.test('an unsupported value of a setting is refused by its name, and nothing changes', async (t) => {
  await create('fixed')
  const fixed = {
    has_issues: true,
    has_pull_requests: true,
    has_releases: true,
    has_wiki: false,
    has_projects: false,
    has_packages: false,
    has_actions: false,
    autodetect_manual_merge: false,
    ignore_whitespace_conflicts: false,
  }
  t.match(await edit('fixed', { ...fixed, enable_prune: false, mirror_interval: '' }), fixed)
  const wrong = [
    ...Object.entries(fixed).map(([name, value]) => ({ [name]: !value })),
    { enable_prune: true },
    { mirror_interval: '8h' },
    { projects_mode: 'all' },
    { external_tracker: { external_tracker_url: 'https://example.org' } },
    { external_wiki: { external_wiki_url: 'https://example.org' } },
    { internal_tracker: { enable_time_tracker: true } },
    { internal_tracker: { enable_issue_dependencies: false } },
  ]
  for (const change of wrong) {
    const answer = await patch('fixed', { ...change, description: 'Other' })
    const [name = ''] = Object.keys(change)
    t.equal(answer.status, 422, name)
    t.match(await answer.json(), { errors: [new RegExp(`^${name}`)] })
  }
  t.equal((await patch('fixed', { internal_tracker: { enable_issue_dependencies: true } })).status, 200)
  t.equal((await read('fixed')).description, '')
})
