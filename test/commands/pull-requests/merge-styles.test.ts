import t from 'tap'
import { gitAs, type Person } from './git-as.ts'
import { type PullRepository, startPulls } from './pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

const ALICE: Person = { name: 'alice', email: 'alice@noreply.127.0.0.1' }
const ZOE: Person = { name: 'Zoë Ångström', email: 'zoe@example.org' }
const BOB: Person = { name: 'bob', email: 'bob@noreply.127.0.0.1' }
const STYLES = ['merge', 'rebase', 'rebase-merge', 'squash'] as const

/** Two commits on `topic`, by two authors and in another zone, and one more on `main`. */
async function diverge({ branch, work }: PullRepository, topic = 'topic') {
  const from = await work.git('rev-parse', 'origin/main')
  await branch(topic, { [`${topic}.txt`]: 'a\n' }, from)
  const at = '1580682906 +0530'
  await gitAs(
    work,
    { author: ZOE, committer: ZOE, at },
    'commit',
    '-q',
    '--allow-empty-message',
    '--amend',
    '--reset-author',
    '-m',
    'Ünïcode\n\nwith a body',
  )
  const head = await work.commit('Second', { [`${topic}2.txt`]: 'b\n' })
  await work.git('push', '-q', '-f', 'origin', topic)
  const main = await branch('main', { [`main-${topic}.txt`]: 'm\n' }, from)
  return { from, head, main }
}

/** Makes git perform the server's merge at the same time; resolves to git's commit. */
async function asGitWould(
  { work }: PullRepository,
  style: (typeof STYLES)[number],
  base: string,
  head: string,
  author: Person,
) {
  const at = await work.git('log', '-1', '--format=%cd', '--date=raw', 'origin/main')
  const message = await work.git('log', '-1', '--format=%B', 'origin/main')
  const committer = { committer: ALICE, at }
  const merge = (tip: string) =>
    gitAs(work, { author: ALICE, ...committer }, 'merge', '-q', '--no-ff', '-m', message, tip)
  await work.git('checkout', '-q', '-B', 'expected', style === 'merge' || style === 'squash' ? base : head)
  switch (style) {
    case 'merge':
      await merge(head)
      break
    case 'squash':
      await work.git('merge', '-q', '--squash', head)
      await gitAs(work, { author, ...committer }, 'commit', '-q', '-m', message)
      break
    case 'rebase':
      await gitAs(work, committer, 'rebase', '-q', base)
      break
    case 'rebase-merge': {
      await gitAs(work, committer, 'rebase', '-q', base)
      const rebased = await work.git('rev-parse', 'HEAD')
      await work.git('checkout', '-q', '-B', 'expected', base)
      await merge(rebased)
    }
  }
  return work.git('rev-parse', 'HEAD')
}

for (const style of STYLES) {
  t.test(`merge.4: ${style} makes the commits that git itself would make`, async (t) => {
    const hosted = await repository(t, style)
    const { open, merge, get, work } = hosted
    const { from, head, main } = await diverge(hosted)
    const index = await open('topic', { title: 'Change' })
    const before = Math.floor(Date.now() / 1000)
    t.equal((await merge(index, { Do: style })).status, 200)
    await work.git('fetch', '-q')
    const tip = await work.git('rev-parse', 'origin/main')
    t.equal(await asGitWould(hosted, style, main, head, ALICE), tip)

    const seconds = Number(await work.git('log', '-1', '--format=%ct', 'origin/main'))
    t.ok(before <= seconds && seconds <= Date.now() / 1000, 'committed now')
    const parents = { merge: `${main} ${head}`, squash: main, rebase: undefined, 'rebase-merge': undefined }
    const [first, ...others] = (await work.git('log', '-1', '--format=%P', tip)).split(' ')
    if (parents[style] !== undefined) t.equal([first, ...others].join(' '), parents[style])
    t.equal(others.length, style === 'merge' || style === 'rebase-merge' ? 1 : 0)
    const authors = await work.git('log', '--reverse', '--format=%an <%ae> %aI', `${main}..${tip}`)
    if (style !== 'squash') t.match(authors, 'Zoë Ångström <zoe@example.org> 2020-02-03T04:05:06+05:30')

    t.match(await get(index), {
      state: 'closed',
      merged: true,
      merge_commit_sha: tip,
      merged_by: { login: 'alice' },
      merge_base: from,
      head: { sha: head },
    })
    const { data: commits } = await alice.repos.repoGetPullRequestCommits('alice', style, index)
    t.strictSame(
      commits.map(({ sha }) => sha),
      [head, await work.git('rev-parse', `${head}~1`)],
      'it keeps showing its own commits',
    )
    t.equal((await alice.repos.repoGetBranch('alice', style, 'main')).data.commit?.id, tip)
  })
}

t.test('merge.4: fast-forward-only makes no commit', async (t) => {
  const { branch, open, merge, get, tip, work } = await repository(t, 'forward')
  const main = await tip('main')
  await branch('topic', { a: 'a' })
  const head = await branch('topic', { b: 'b' }, 'topic')
  const index = await open('topic')
  t.equal((await merge(index, { Do: 'fast-forward-only', MergeTitleField: 'No place for it' })).status, 200)
  t.equal(await tip('main'), head)
  t.match(await get(index), { merged: true, merge_commit_sha: head, merge_base: main })
  t.equal(await work.git('rev-list', '--count', `${main}..${head}`), '2')
})

t.test('merge.4: commits that are on top of the base already are not changed by a rebase', async (t) => {
  const { branch, open, merge, tip, work } = await repository(t, 'linear')
  const head = await branch('topic', { a: 'a' })
  t.equal((await merge(await open('topic'), { Do: 'rebase' })).status, 200)
  t.equal(await tip('main'), head)
  const next = await branch('next', { b: 'b' }, head)
  t.equal((await merge(await open('next'), { Do: 'rebase-merge' })).status, 200)
  await work.git('fetch', '-q')
  t.equal(await work.git('log', '-1', '--format=%P', 'origin/main'), `${head} ${next}`)
})

t.test('merge.4: a head that the base includes is merged without a commit, by any style', async (t) => {
  const { branch, push, open, merge, get, work, tip, typesOf } = await repository(t, 'nothing')
  await work.git('checkout', '-q', 'main')
  await work.commit('Empty', {})
  await push('main')
  for (const Do of [...STYLES, 'fast-forward-only']) {
    await branch(Do, { a: 'a' })
    const index = await open(Do)
    const head = await work.git('rev-parse', 'origin/main~1')
    await push(`+${head}:refs/heads/${Do}`)
    const main = await tip('main')
    t.equal((await merge(index, { Do })).status, 200, Do)
    t.equal(await tip('main'), main)
    t.match(await get(index), { merged: true, merge_commit_sha: main, merge_base: head, head: { sha: head } })
    t.equal((await typesOf(index)).at(-1), 'PullRequestMerged')
  }
  await branch('picked', { p: 'p' })
  await work.git('checkout', '-q', 'main')
  await work.git('cherry-pick', '-n', 'picked')
  const main = await work.commit('The same, by another name', {})
  await push('main')
  const picky = ['rebase', 'rebase-merge']
  await push(...picky.map((Do) => `picked:refs/heads/picked-${Do}`))
  for (const Do of picky) {
    t.equal((await merge(await open(`picked-${Do}`), { Do })).status, 200, Do)
    t.equal(await tip('main'), main)
  }
})

t.test('merge.4: styles that the repository does not allow give 405', async (t) => {
  const hosted = await repository(t, 'choosy')
  const { branch, open, merge } = hosted
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  const switches = {
    merge: 'allow_merge_commits',
    rebase: 'allow_rebase',
    'rebase-merge': 'allow_rebase_explicit',
    'fast-forward-only': 'allow_fast_forward_only_merge',
  }
  const off = Object.fromEntries(Object.values(switches).map((name) => [name, false]))
  await alice.repos.repoEdit('alice', 'choosy', { ...off, default_merge_style: 'squash' })
  for (const Do of Object.keys(switches)) {
    t.match(await merge(index, { Do }), { status: 405, message: `Do: ${Do} is not allowed` }, Do)
  }
  t.equal(
    (await merge(index, { Do: '' })).status,
    405,
    'without Do it is the plain style, whatever the default',
  )
  for (const Do of ['octopus', 'Squash', '__proto__', ' ']) {
    t.match(await merge(index, { Do }), { status: 405, message: /is not a merge style/ }, Do)
  }
  t.equal((await merge(index, { Do: 'squash' })).status, 200)
})

for (const style of ['merge', 'rebase', 'squash', 'fast-forward-only'] as const) {
  t.test(`a fork's pull request is merged by ${style}`, async (t) => {
    const hosted = await repository(t, `forked-${style}`)
    const { branch, open, merge, get, work, name } = hosted
    const fork = await hosted.fork('bob')
    await fork.branch('topic', { 'a.txt': 'a\n' })
    const head = await fork.branch('topic', { 'b.txt': 'b\n' }, 'topic')
    const main = style === 'fast-forward-only' ? '' : await branch('main', { 'm.txt': 'm\n' })
    const index = await open('bob:topic', { title: 'From afar' }, 'bob')
    t.equal((await merge(index, { Do: style }, 'bob')).status, 405, 'who wrote it may not merge it')
    t.equal((await merge(index, { Do: style })).status, 200)
    await work.git('fetch', '-q', 'origin', '+refs/pull/*:refs/pull/*', '+refs/heads/*:refs/remotes/origin/*')
    const tip = await work.git('rev-parse', 'origin/main')
    const expected = style === 'fast-forward-only' ? head : await asGitWould(hosted, style, main, head, BOB)
    t.equal(tip, expected)
    t.match(await get(index), { merged: true, merge_commit_sha: tip, head: { sha: head, ref: 'topic' } })
    const message = await work.git('log', '-1', '--format=%B', tip)
    if (style === 'merge') {
      t.equal(message, `Merge pull request 'From afar' (#${index}) from bob/${name}:topic into main`)
    }
    if (style === 'squash') {
      t.equal(message, `From afar (#${index})\n\nCo-authored-by: Tester <tester@example.org>`)
    }
  })
}

t.test(
  'merge.5: a squash is called by its title and names its other authors, unless the request has a title',
  async (t) => {
    const hosted = await repository(t, 'authors')
    const { open, merge, work } = hosted
    const message = async () => {
      await work.git('fetch', '-q')
      return work.git('log', '-1', '--format=%an: %B', 'origin/main')
    }
    const trailers =
      'Co-authored-by: Zoë Ångström <zoe@example.org>\nCo-authored-by: Tester <tester@example.org>'
    await diverge(hosted)
    const index = await open('topic', { title: 'Two authors' })
    t.equal((await merge(index, { Do: 'squash', MergeTitleField: ' \t' })).status, 200)
    t.equal(await message(), `alice: Two authors (#${index})\n\n${trailers}`)
    await diverge(hosted, 'next')
    const fields = { MergeTitleField: ' Own ', MergeMessageField: '\nBody\n' }
    t.equal((await merge(await open('next'), { Do: 'squash', ...fields })).status, 200)
    t.equal(await message(), 'alice: Own\n\nBody')
  },
)

t.test('merge.5: a message with characters that a commit cannot have is refused', async (t) => {
  const { branch, open, merge, work } = await repository(t, 'characters')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  for (const Do of ['merge', 'squash', 'rebase-merge']) {
    t.equal((await merge(index, { Do, MergeTitleField: 'a\0b' })).status, 422, Do)
    t.equal((await merge(index, { Do, MergeMessageField: '\0x' })).status, 422, Do)
  }
  t.equal((await merge(index, { MergeTitleField: 5 })).status, 422)
  t.equal(
    (await merge(index, { MergeTitleField: "--amend 'x' $(id)", MergeMessageField: '\ud800 é 🚀' })).status,
    200,
  )
  await work.git('fetch', '-q')
  t.equal(await work.git('log', '-1', '--format=%B', 'origin/main'), "--amend 'x' $(id)\n\n� é 🚀")
})

t.test('merge.5: merge messages do not name a private fork to users who may not see it', async (t) => {
  const { open, merge, work, fork, name } = await repository(t, 'secret-fork')
  const own = await fork('bob', 'secret-name')
  await own.branches('topic', 'public')
  const index = await open('bob:topic', { title: 'From afar' }, 'bob')
  const shown = await open('bob:public', { title: 'From near' }, 'bob')
  const message = async () => {
    await work.git('fetch', '-q')
    return work.git('log', '-1', '--format=%B', 'origin/main')
  }
  t.equal((await merge(shown)).status, 200)
  t.equal(await message(), `Merge pull request 'From near' (#${shown}) from bob/secret-name:public into main`)
  const hidden = await server.fetch('bob', '/api/v1/repos/bob/secret-name', {
    method: 'PATCH',
    body: JSON.stringify({ private: true }),
  })
  t.equal(hidden.status, 200)
  t.equal((await merge(index)).status, 200)
  t.equal(await message(), `Merge pull request 'From afar' (#${index}) from topic into main`, name)
})
