import t from 'tap'
import { startPulls } from './pull-repository.ts'

const { alice, repository } = await startPulls(t)
const status = (repo: string, sha: string, context: string, state: string) =>
  alice.repos.repoCreateStatus('alice', repo, sha, { context, state })

t.test('merge.2: into a branch with a merge allow-list others than its writers get 405', async (t) => {
  const writers = ['bob', 'carol']
  const { branches, open, merge, protect, tip } = await repository(t, 'mergers', { writers })
  await branches('topic', 'free', 'target')
  await protect('main', { enable_merge_whitelist: true, merge_whitelist_usernames: ['bob'] })
  const [index, other] = [await open('topic'), await open('free', { base: 'target' })]
  const main = await tip('main')
  t.match(await merge(index, {}, 'carol'), { status: 405, message: /not allowed to merge/ })
  t.match(
    await merge(index, {}, 'alice'),
    { status: 405, message: /not allowed to merge/ },
    'not even the owner',
  )
  t.equal(await tip('main'), main)
  t.equal((await merge(other, {}, 'carol')).status, 200, 'other branches are not protected')
  t.equal((await merge(index, {}, 'bob')).status, 200, 'though nobody may push')
})

t.test('merge.2: required checks that have not succeeded give 405', async (t) => {
  const { branch, open, merge, protect } = await repository(t, 'checks', { writers: ['bob'] })
  const old = await branch('topic', { a: 'a' })
  await protect('main', { enable_status_check: true, status_check_contexts: ['ci/*', 'lint'] })
  const index = await open('topic')
  const refused = (state: string) => ({
    status: 405,
    message: new RegExp(`"main": .* status checks are ${state}`),
  })
  t.match(await merge(index), refused('pending'), 'none was posted')
  await status('checks', old, 'ci/linux', 'success')
  t.match(await merge(index), refused('pending'), 'one was not posted')
  await status('checks', old, 'lint', 'failure')
  t.match(await merge(index), refused('failed'))
  await status('checks', old, 'lint', 'success')
  await status('checks', old, 'other', 'failure')
  const head = await branch('topic', { b: 'b' }, 'topic')
  t.match(await merge(index), refused('pending'), 'the checks of another commit say nothing')
  t.match(await merge(index, { head_commit_id: old }), { status: 405 }, 'nor for who has not seen the push')
  t.match(await merge(index, { force_merge: true }, 'bob'), refused('pending'), 'a writer has no force')
  await status('checks', head, 'ci/linux', 'success')
  await status('checks', head, 'lint', 'success')
  t.equal((await merge(index, {}, 'bob')).status, 200)
})

t.test('merge.2: force_merge of an admin passes protections, unless they bind admins', async (t) => {
  const { branches, open, merge, protect } = await repository(t, 'forced')
  await branches('topic', 'next')
  const [index, next] = [await open('topic'), await open('next')]
  await protect('main', {
    enable_status_check: true,
    status_check_contexts: ['ci'],
    block_admin_merge_override: true,
  })
  t.match(await merge(index, { force_merge: true }), { status: 405, message: /status checks/ })
  await alice.repos.repoEditBranchProtection('alice', 'forced', 'main', { block_admin_merge_override: false })
  t.equal((await merge(index)).status, 405)
  t.equal((await merge(index, { force_merge: true })).status, 200)
  t.equal((await merge(next, { force_merge: true }, 'admin')).status, 200, 'nor is a site admin bound')
})

t.test('merge.2: an outdated head gives 405 when the branch blocks it', async (t) => {
  const { branches, open, merge, protect, work } = await repository(t, 'outdated')
  await branches('topic', 'first')
  await protect('main', { block_on_outdated_branch: true })
  const [index, first] = [await open('topic'), await open('first')]
  t.equal((await merge(first)).status, 200)
  t.match(await merge(index), { status: 405, message: /"main": the head branch lacks commits/ })
  await work.git('fetch', '-q')
  await work.git('checkout', '-q', 'topic')
  await work.git('merge', '-q', '--no-edit', 'origin/main')
  await work.git('push', '-q', 'origin', 'topic')
  t.equal((await merge(index)).status, 200)
})

t.test('a protection that is added while merges wait applies to the waiting ones', async (t) => {
  const { branches, open, merge, protect } = await repository(t, 'meanwhile')
  const heads = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  await branches(...heads)
  const numbers = await Promise.all(heads.map((head) => open(head)))
  let isProtected = false
  const late: number[] = []
  const merging = numbers.map(async (index) => {
    const { status } = await merge(index)
    if (isProtected) late.push(status)
    return status
  })
  await Promise.race(merging)
  await protect('main', { enable_merge_whitelist: true, merge_whitelist_usernames: [] })
  isProtected = true
  const statuses = await Promise.all(merging)
  t.ok(statuses.every((status) => status === 200 || status === 405))
  // One may have been decided before the protection, and finish after it.
  t.ok(late.filter((status) => status === 200).length <= 1, `${late}`)
})
