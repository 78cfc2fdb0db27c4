/** Approvals of earlier states of a pull request: by head, base branch or reviewed commit. */
import t from 'tap'
import { contentChanged } from '../../../src/commands/reviews/compare-content.ts'
import { RepositoryMissing } from '../../../src/git/process/errors.ts'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)

/** A repository with bob as writer, and helpers for approvals of a pull request. */
async function approvals(...[test, name, options = {}]: Parameters<typeof repository>) {
  const made = await repository(test, name, { writers: ['bob'], ...options })
  const { call } = made
  return {
    ...made,
    approve: async (index: number, option: object = {}, login = 'bob') =>
      (await call(login, 'POST', `pulls/${index}/reviews`, { event: 'APPROVED', ...option })).body,
    last: async (index: number) => (await call('bob', 'GET', `pulls/${index}/reviews`)).body.at(-1),
  }
}

const missing = { status: 405, message: /needs 1 official approvals and has 0/ }
const STALE = { stale: true, dismissed: true }
const CURRENT = { stale: false, dismissed: false }
const rule = { required_approvals: 1, dismiss_stale_approvals: true, ignore_stale_approvals: true }

t.test('a push that leaves out an approved file makes approvals stale', async (t) => {
  const { work, branch, push, open, protect, approve, last, merge } = await approvals(t, 'dropped')
  await branch('topic', { approved: 'x', 'also-approved': 'y' })
  await protect('main', rule)
  const index = await open('topic')
  await approve(index)
  await work.git('checkout', '-q', 'topic')
  await work.git('rm', '-q', 'also-approved')
  await work.git('commit', '-q', '-m', 'Without a file')
  await push('topic')
  t.match(await last(index), STALE)
  t.match(await merge(index), missing)
})

t.test("a merge of the base that reverts others' work makes approvals stale", async (t) => {
  const { work, branch, push, open, protect, approve, last, merge } = await approvals(t, 'ours')
  await branch('topic', { mine: 'x' })
  const index = await open('topic')
  await approve(index)
  await branch('main', { 'reviewed-fix': 'y' })
  await protect('main', rule)
  await work.git('checkout', '-q', 'topic')
  await work.git('merge', '-q', '-s', 'ours', '--no-edit', 'main')
  await push('topic')
  t.match(await last(index), STALE)
  t.match(await merge(index), missing)
})

t.test('a rebase onto a base that changed the same file keeps approvals', async (t) => {
  const { work, branch, push, open, protect, approve, last, merge } = await approvals(t, 'rebased')
  const lines = (first: string, last: string) => [first, ...'abcdefghij', last].join('\n')
  await branch('main', { file: lines('first', 'last') })
  await branch('topic', { file: lines('first', 'mine') })
  await protect('main', { ...rule, enable_push: true })
  const index = await open('topic')
  await approve(index)
  await branch('main', { file: lines('theirs', 'last') })
  await work.git('checkout', '-q', 'topic')
  await work.git('rebase', '-q', 'main')
  await push('topic')
  t.match(await last(index), CURRENT)
  await work.git('commit', '-q', '--amend', '-m', 'Other words')
  await push('topic')
  t.match(await last(index), CURRENT)
  t.equal((await merge(index)).status, 200)
})

t.test('a new base branch that alters the changes makes approvals stale', async (t) => {
  const { branch, open, protect, approve, last, merge, edit } = await approvals(t, 'retargeted')
  await branch('prepared', { backdoor: 'x' })
  await branch('topic', { harmless: 'y' }, 'prepared')
  await protect('main', rule)
  const index = await open('topic', { base: 'prepared' })
  await approve(index)
  t.equal((await edit(index, { base: 'main' })).status, 201)
  t.match(await last(index), STALE)
  t.match(await merge(index), missing)
  t.match(await approve(index), CURRENT)
  t.equal((await edit(index, { base: 'prepared' })).status, 201)
  t.match(await last(index), { stale: true, dismissed: false }, 'nothing protects that branch')
  t.equal((await edit(index, { base: 'main' })).status, 201)
  t.match(await last(index), CURRENT, 'exactly what was approved')
})

t.test(
  'a base that loses commits of the head makes approvals stale, also on another base branch',
  async (t) => {
    const { work, branch, push, open, protect, approve, last, merge, edit, call, tip } = await approvals(
      t,
      'rewound',
    )
    const prepared = await branch('prepared', { backdoor: 'x' })
    await branch('topic', { harmless: 'y' }, 'prepared')
    await protect('main', { required_approvals: 1, dismiss_stale_approvals: true })
    const index = await open('topic', { base: 'prepared' })
    await approve(index)
    await work.git('checkout', '-q', 'prepared')
    await work.git('reset', '-q', '--hard', 'main')
    await push('prepared')
    const main = await tip('main')
    await until('the merge base has moved', async () => {
      return (await call('bob', 'GET', `pulls/${index}`)).body.merge_base === main
    })
    t.match(await last(index), { stale: true, dismissed: false }, 'nothing protects that branch')
    await push(`${prepared}:prepared`)
    await until('the merge base has moved back', async () => {
      return (await call('bob', 'GET', `pulls/${index}`)).body.merge_base === prepared
    })
    t.match(await last(index), CURRENT, 'exactly what was approved')
    await push('prepared')
    await until('the merge base has moved', async () => {
      return (await call('bob', 'GET', `pulls/${index}`)).body.merge_base === main
    })
    t.equal((await edit(index, { base: 'main' })).status, 201)
    t.match(await last(index), STALE)
    t.match(await merge(index), missing)
  },
)

t.test('a base that gains commits of the head keeps approvals', async (t) => {
  const { work, branch, push, open, protect, approve, last, merge, call } = await approvals(t, 'gained')
  const first = await branch('topic', { a: 'x' })
  await branch('topic', { b: 'y' }, first)
  await protect('main', { ...rule, enable_push: true })
  const index = await open('topic')
  await approve(index)
  await work.git('branch', '-q', '-f', 'main', first)
  await push('main')
  await until('the merge base has moved', async () => {
    return (await call('bob', 'GET', `pulls/${index}`)).body.merge_base === first
  })
  t.match(await last(index), CURRENT)
  t.equal((await merge(index)).status, 200)
})

t.test(
  'an approval that became stale without rules is dismissed on a branch that dismisses stale ones',
  async (t) => {
    const { branch, open, protect, approve, last, merge, edit, call } = await approvals(t, 'stale-before')
    const head = await branch('topic', { harmless: 'y' })
    await call('alice', 'POST', 'branches', { new_branch_name: 'free', old_branch_name: 'main' })
    await protect('main', { required_approvals: 1, dismiss_stale_approvals: true })
    const index = await open('topic', { base: 'free' })
    await approve(index)
    await branch('topic', { backdoor: 'x' }, head)
    t.match(await last(index), { stale: true, dismissed: false })
    t.equal((await edit(index, { base: 'main' })).status, 201)
    t.match(await last(index), STALE)
    t.match(await merge(index), missing)
  },
)

t.test('an approval for another base branch is not renewed by a push and a push back', async (t) => {
  const { branch, push, open, protect, approve, last, merge, edit } = await approvals(t, 'back-and-forth')
  await branch('prepared', { backdoor: 'x' })
  const head = await branch('topic', { harmless: 'y' }, 'prepared')
  await protect('main', { ...rule, dismiss_stale_approvals: false })
  const index = await open('topic', { base: 'prepared' })
  await approve(index)
  await edit(index, { base: 'main' })
  await branch('topic', { more: 'z' }, head)
  await push(`${head}:topic`)
  t.match(await last(index), { stale: true, commit_id: head })
  t.match(await merge(index), missing)
})

t.test('a base branch at the same commit keeps approvals, and its rules decide which count', async (t) => {
  const { branch, open, protect, approve, edit, merge, call, last } = await approvals(t, 'other-rules', {
    writers: ['bob', 'carol'],
  })
  await branch('topic', { file: 'x' })
  await branch('other', { file: 'x' })
  await call('alice', 'POST', 'branches', { new_branch_name: 'free', old_branch_name: 'main' })
  await call('alice', 'POST', 'branches', { new_branch_name: 'named', old_branch_name: 'main' })
  await protect('named', {
    ...rule,
    enable_approvals_whitelist: true,
    approvals_whitelist_username: ['carol'],
    block_on_rejected_reviews: true,
    block_on_official_review_requests: true,
  })
  const index = await open('topic', { base: 'free' })
  t.match(await approve(index), { official: true })
  await call('carol', 'POST', `pulls/${index}/requested_reviewers`, { reviewers: ['carol', 'dave'] })
  await edit(index, { base: 'named' })
  const shown = async () =>
    (await call('bob', 'GET', `pulls/${index}/reviews`)).body.map(
      ({ official, stale, dismissed }: Record<string, boolean>) =>
        [official, stale, dismissed].map(Number).join(''),
    )
  t.same(await shown(), ['000', '100', '000'], "bob's approval, the requests to carol and dave")
  t.match(await merge(index), missing)
  await edit(index, { base: 'free' })
  t.same(await shown(), ['100', '100', '000'])

  const rejected = await open('other', { base: 'named' })
  await call('bob', 'POST', `pulls/${rejected}/reviews`, { event: 'REQUEST_CHANGES', body: 'No' })
  t.match(await last(rejected), { official: false })
  await edit(rejected, { base: 'free' })
  t.match(await last(rejected), { official: true })
  t.match(await merge(rejected), { status: 200 }, 'nothing protects that branch')
})

t.test('another base branch and back does not lift the rejection of a former writer', async (t) => {
  const { branch, open, protect, approve, call, edit, merge } = await approvals(t, 'former-writer', {
    writers: ['bob', 'carol'],
  })
  await branch('topic', { file: 'x' })
  await call('alice', 'POST', 'branches', { new_branch_name: 'free', old_branch_name: 'main' })
  await protect('main', { ...rule, block_on_rejected_reviews: true })
  const index = await open('topic')
  await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'REQUEST_CHANGES', body: 'No' })
  await approve(index, {}, 'carol')
  await call('alice', 'PUT', 'collaborators/bob', { permission: 'read' })
  const rejected = { status: 405, message: /changes are requested by bob/ }
  t.match(await merge(index), rejected)
  await edit(index, { base: 'free' })
  await edit(index, { base: 'main' })
  t.match(await merge(index), rejected)
})

t.test('a late approval of an earlier commit is dismissed where the rules dismiss stale ones', async (t) => {
  const { branch, open, protect, approve, last, merge } = await approvals(t, 'late')
  const first = await branch('topic', { a: 'x' })
  await branch('topic', { b: 'y' }, first)
  await protect('main', { required_approvals: 1, dismiss_stale_approvals: true })
  const index = await open('topic')
  t.match(await approve(index, { commit_id: first }), { stale: true, dismissed: true, commit_id: first })
  t.match(await merge(index), missing)
  t.match(await approve(index), { ...CURRENT, official: true })
  t.match(await last(index), CURRENT)
  t.equal((await merge(index)).status, 200)
})

t.test('a late approval of an earlier commit with the same content counts', async (t) => {
  const { branch, open, protect, approve, call, merge } = await approvals(t, 'late-same')
  const first = await branch('topic', { a: 'x' })
  const index = await open('topic')
  await branch('main', { b: 'y' })
  await protect('main', rule)
  t.equal((await call('alice', 'POST', `pulls/${index}/update`)).status, 200)
  t.match(await approve(index, { commit_id: first }), { ...CURRENT, commit_id: first })
  t.equal((await merge(index)).status, 200)
})

t.test('a review that was drafted before a push belongs to the commit of the draft', async (t) => {
  const { branch, open, protect, approve, merge, call } = await approvals(t, 'drafted')
  await protect('main', { required_approvals: 1, ignore_stale_approvals: true })
  const pulls = new Map<number, string>()
  for (const name of ['submitted', 'created', 'continued', 'named']) {
    const head = await branch(name, { [name]: 'x' })
    const index = await open(name)
    await call('bob', 'POST', `pulls/${index}/reviews`, { body: 'A draft' })
    await branch(name, { backdoor: 'x' }, head)
    pulls.set(index, head)
  }
  const [submitted = 0, created = 0, continued = 0, named = 0] = pulls.keys()
  const old = (index: number) => ({ commit_id: pulls.get(index), stale: true, official: true })
  const { body: drafts } = await call('bob', 'GET', `pulls/${submitted}/reviews`)
  const path = `pulls/${submitted}/reviews/${drafts[0].id}`
  t.match((await call('bob', 'POST', path, { event: 'APPROVED' })).body, old(submitted))
  t.match(await merge(submitted), missing)
  t.match(await approve(created), old(created))
  t.match(await merge(created), missing)
  const { body: draft } = await call('bob', 'POST', `pulls/${continued}/reviews`, { body: 'More' })
  t.match(draft, { commit_id: pulls.get(continued) })
  t.match(await approve(continued), old(continued))
  const { body: pull } = await call('bob', 'GET', `pulls/${named}`)
  t.match(await approve(named, { commit_id: pull.head.sha }), { ...CURRENT, commit_id: pull.head.sha })
  t.equal((await merge(named)).status, 200)
})

t.test('a change that git can never compare counts as changed', async (t) => {
  const { branch, tip, repoId } = await approvals(t, 'incomparable')
  const change = { base: (await tip('main')) ?? '', head: await branch('topic', { a: 'x' }) }
  const lost = { ...change, head: 'f'.repeat(40) }
  t.equal(await contentChanged(server.services, repoId, lost, change), true)
  await t.rejects(contentChanged(server.services, repoId + 1000, lost, change), RepositoryMissing)
})
