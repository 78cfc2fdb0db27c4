import t from 'tap'
import type { Static } from 'typebox'
import type { EvidenceFacts, EvidenceWire } from '../../../../src/api/pull-requests/evidence.ts'
import { checksStream, gitStream, pullStream, repositoryStream } from '../../../../src/events/streams.ts'
import { startTeams } from '../../../auth/team-repository.ts'
import { eventsIn, type PullRepository, startPulls } from '../../../commands/pull-requests/pull-repository.ts'
import { until } from '../../../until.ts'

const { server, alice, repository } = await startPulls(t)

type Evidence = Static<typeof EvidenceWire>

async function evidence(
  { call }: Pick<PullRepository, 'call'>,
  index: number,
  login: string | null = 'alice',
): Promise<Evidence> {
  const answer = await call(login, 'GET', `pulls/${index}/evidence`)
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return answer.body
}

/** The recorded event that a fact names. */
async function eventOf({ stream, revision }: EvidenceFacts['opened']) {
  return (await eventsIn(server, stream)).find((event) => event.revision === revision)
}

const approve = ({ call }: PullRepository, login: string, index: number, event = 'APPROVED') =>
  call(login, 'POST', `pulls/${index}/reviews`, { event, body: 'Looked at it' })

t.test('evidence.1: the facts of a merge, each with its event', async (t) => {
  const own = await repository(t, 'facts', { writers: ['bob', 'carol'] })
  const { branch, open, merge, protect, postStatus, repoId, tip } = own
  await protect('main', {
    enable_status_check: true,
    status_check_contexts: ['ci/*'],
    required_approvals: 1,
  })
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  await postStatus(head, 'failure', 'ci/linux')
  await postStatus(head, 'success', 'ci/linux')
  await postStatus(head, 'failure', 'docs')
  await approve(own, 'carol', index)
  const before = await tip('main')
  t.equal((await merge(index, {}, 'bob')).status, 200)
  const found = await evidence(own, index)
  const [set] = (await eventsIn(server, repositoryStream(repoId))).filter(
    ({ type }) => type === 'BranchProtectionSet',
  )
  const statuses = await eventsIn(server, checksStream(repoId, head))
  t.match(found, {
    number: index,
    opened_by: { login: 'alice' },
    opened: { stream: pullStream(repoId, index), revision: 0 },
    base: 'main',
    head_commit: head,
    last_pusher: { login: 'alice' },
    merge: {
      by: { login: 'bob' },
      style: 'merge',
      base_commit: before,
      commit: await tip('main'),
      access: 'write',
      through: 'collaborator',
      credential: 'password',
      scheduled: false,
      sudo: null,
      forced: false,
      bypassed: [],
      move: { cause: 'merge', by: { login: 'bob' }, event: { stream: gitStream(repoId) } },
    },
    protection: {
      rule: 'main',
      settings: { contexts: ['ci/*'], reviews: { required: 1 } },
      changed_at: set?.metadata.at,
      changed_by: { login: 'alice' },
      event: { stream: repositoryStream(repoId), revision: set?.revision, hash: set?.metadata.hash },
    },
    required_approvals: 1,
    schedule: null,
    four_eyes: true,
    not_recorded: [],
    hidden: [],
  })
  t.match(found.checks, {
    required: true,
    contexts: ['ci/*'],
    outcome: 'success',
    statuses: [
      {
        context: 'ci/linux',
        required: true,
        state: 'success',
        by: { login: 'alice' },
        credential: 'password',
        event: { stream: checksStream(repoId, head), revision: 1, hash: statuses[1]?.metadata.hash },
      },
      { context: 'docs', required: false, state: 'failure' },
    ],
  })
  t.match(found.reviews, [
    {
      by: { login: 'carol' },
      verdict: 'approved',
      commit: head,
      official: true,
      stale: false,
      dismissed: false,
      dismissal: null,
      counted: true,
    },
  ])
  t.equal((await eventOf(found.merge.decided))?.type, 'MergeStarted')
  t.equal((await eventOf(found.merge.event))?.type, 'PullRequestMerged')
  const facts = [found.opened, found.merge.decided, found.merge.event, found.reviews[0]?.event]
  for (const fact of facts) t.equal(fact && (await eventOf(fact))?.metadata.hash, fact?.hash)
  t.match(found.commits, { total: 2, list: [{ sha: found.merge.commit }, { sha: head, signed: false }] })
})

t.test('evidence.1: a forced merge shows what was bypassed', async (t) => {
  const own = await repository(t, 'forced')
  const { branches, open, merge, protect } = own
  await branches('topic')
  const index = await open('topic')
  await protect('main', {
    enable_status_check: true,
    status_check_contexts: ['ci'],
    required_approvals: 2,
  })
  t.equal((await merge(index, { force_merge: true }, 'admin')).status, 200)
  t.match(await evidence(own, index), {
    merge: {
      by: { login: 'admin' },
      access: 'admin',
      through: 'site-admin',
      forced: true,
      bypassed: [
        'protection "main": the required status checks are pending',
        'protection "main": needs 2 official approvals and has 0',
      ],
    },
    checks: { required: true, outcome: 'pending', statuses: [] },
    required_approvals: 2,
    reviews: [],
    four_eyes: true,
  })
})

t.test('evidence.1: an own merge without a review has no four eyes', async (t) => {
  const own = await repository(t, 'two-eyes', { writers: ['bob'] })
  const { branch, branches, open, merge, work } = own
  await branches('topic')
  const index = await open('topic')
  t.equal((await merge(index)).status, 200)
  t.match(await evidence(own, index), {
    merge: { through: 'owner' },
    protection: null,
    checks: { required: false, outcome: null },
    four_eyes: false,
  })
  await branch('pushed', { p: 'p' })
  const other = await open('pushed', {}, 'bob')
  await approve(own, 'alice', other)
  await work.git('checkout', '-q', 'pushed')
  const tip = await work.commit('More', { p: 'q' })
  await work.git('push', '-q', 'origin', 'pushed')
  await until('the head has moved', async () => (await own.get(other)).head?.sha === tip)
  t.equal((await merge(other, {}, 'bob')).status, 200)
  t.match(
    await evidence(own, other),
    {
      opened_by: { login: 'bob' },
      last_pusher: { login: 'alice' },
      reviews: [{ by: { login: 'alice' }, stale: true }],
      four_eyes: false,
    },
    'the approval is of the last pusher',
  )
})

t.test('evidence.1: a scheduled merge', async (t) => {
  const own = await repository(t, 'scheduled', { writers: ['bob'] })
  const { branch, open, merge, protect, postStatus, get } = own
  await protect('main', { enable_status_check: true, status_check_contexts: ['ci'] })
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  const scheduling = { merge_when_checks_succeed: true, head_commit_id: head }
  t.equal((await merge(index, scheduling, 'bob')).status, 201)
  await postStatus(head, 'success')
  await until('it is merged', async () => (await get(index)).merged === true)
  t.match(await evidence(own, index), {
    merge: { by: { login: 'bob' }, credential: 'schedule', scheduled: true, access: 'write', forced: false },
    schedule: {
      by: { login: 'bob' },
      credential: 'password',
      expected_head: head,
      waits_for: ['required-checks'],
      event: { hash: String },
    },
    checks: { outcome: 'success' },
    not_recorded: [],
  })
})

t.test('evidence.1: a merge by push (manually-merged)', async (t) => {
  const own = await repository(t, 'pushed', { writers: ['bob'], allow_manual_merge: true })
  const { branch, open, merge, protect, work, tip, repoId } = own
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await protect('main', { enable_push: true, required_approvals: 1 })
  await work.git('checkout', '-q', 'main')
  await work.git('merge', '-q', '--no-ff', '--no-edit', 'topic')
  await work.git('push', '-q', 'origin', 'main')
  const commit = await tip('main')
  t.equal((await merge(index, { Do: 'manually-merged', MergeCommitID: commit }, 'bob')).status, 200)
  t.match(await evidence(own, index), {
    merge: {
      by: { login: 'bob' },
      style: 'manually-merged',
      commit,
      base_commit: null,
      forced: false,
      bypassed: ['protection "main": needs 1 official approvals and has 0'],
      move: { cause: 'push', by: { login: 'alice' }, event: { stream: gitStream(repoId), hash: String } },
    },
    protection: { rule: 'main' },
  })
})

t.test('evidence.1: what happens after the merge does not change the evidence', async (t) => {
  const own = await repository(t, 'after', { writers: ['bob'] })
  const { branch, open, merge, protect, postStatus, call } = own
  await protect('main', { enable_status_check: true, status_check_contexts: ['ci'] })
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  await postStatus(head, 'success')
  await merge(index)
  const before = await evidence(own, index)

  t.test('evidence.1: protection changed after the merge', async (t) => {
    const changed = { status_check_contexts: ['other'], required_approvals: 3 }
    await alice.repos.repoEditBranchProtection('alice', 'after', 'main', changed)
    t.same(await evidence(own, index), before)
    await call('alice', 'DELETE', 'branch_protections/main')
    t.same(await evidence(own, index), before)
  })

  t.test('evidence.1: checks re-posted after the merge', async (t) => {
    await postStatus(head, 'failure')
    t.same(await evidence(own, index), before)
  })

  t.test('evidence.1: a review after the merge', async (t) => {
    await approve(own, 'bob', index)
    t.same(await evidence(own, index), before)
  })
})

t.test('evidence.1: a dismissed review', async (t) => {
  const own = await repository(t, 'dismissed', { writers: ['bob', 'carol'] })
  const { branches, open, merge, call } = own
  await branches('topic')
  const index = await open('topic')
  const { body } = await approve(own, 'bob', index, 'REQUEST_CHANGES')
  await call('alice', 'POST', `pulls/${index}/reviews/${body.id}/dismissals`, { message: 'Settled' })
  t.equal((await merge(index)).status, 200)
  const { reviews } = await evidence(own, index)
  t.match(reviews, [
    { by: { login: 'bob' }, verdict: 'rejected', dismissed: true, dismissed_by: { login: 'alice' } },
  ])
  const [review] = reviews
  t.equal(review?.dismissal && (await eventOf(review.dismissal))?.type, 'ReviewDismissed')
})

t.test('evidence.1: token vs password', async (t) => {
  const own = await repository(t, 'credentials')
  const { branches, open, merge } = own
  await branches('one', 'two')
  const [one, two] = [await open('one'), await open('two')]
  await merge(one)
  await alice.repos.repoMergePullRequest('alice', 'credentials', two, { Do: 'merge' })
  t.equal((await evidence(own, one)).merge.credential, 'password')
  t.equal((await evidence(own, two)).merge.credential, 'token')
})

t.test('evidence.1: a pull request that is not merged gives 404', async (t) => {
  const own = await repository(t, 'open')
  const { branches, open, close, call } = own
  await branches('topic')
  const index = await open('topic')
  const message = 'the pull request is not merged, so there is no evidence of a merge'
  t.match(await call('alice', 'GET', `pulls/${index}/evidence`), { status: 404, message })
  await close(index)
  t.match(await call('alice', 'GET', `pulls/${index}/evidence`), { status: 404, message })
  t.equal((await call('alice', 'GET', 'pulls/99/evidence')).status, 404)
  const past = 'at: this route cannot show the past'
  for (const path of [`pulls/${index}/evidence`, 'evidence']) {
    t.match(await call('alice', 'GET', `${path}?at=2026-01-01`), { status: 422, message: past })
  }
})

t.test(
  'evidence.2: readers get it without whom rules name, and without permissions and credentials',
  async (t) => {
    const own = await repository(t, 'readers', { writers: ['bob'] })
    const { branch, open, merge, protect, call } = own
    await protect('main', { enable_merge_whitelist: true, merge_whitelist_usernames: ['bob'] })
    await branch('topic', { a: 'a' })
    const index = await open('topic')
    await merge(index, {}, 'bob')
    t.match(await evidence(own, index), { protection: { settings: { mergers: [Number] } }, hidden: [] })
    for (const login of ['bob', 'dave', null]) {
      const shown = await evidence(own, index, login)
      t.match(shown, {
        merge: { by: { login: 'bob' }, forced: false, access: null, through: null, credential: null },
        protection: { rule: 'main', settings: null, changed_at: null, changed_by: null, event: null },
      })
      t.ok(shown.hidden.includes('protection.settings'))
      const { text } = await call(login, 'GET', `pulls/${index}/history`)
      t.notMatch(text, /"through"/, 'nor does the history show it')
      const lines = { accept: 'application/x-ndjson' }
      const streamed = await call(login, 'GET', `pulls/${index}/history`, undefined, lines)
      t.match(streamed.text, /"MergeStarted"/)
      t.notMatch(streamed.text, /"through"/, 'nor as lines')
      t.notMatch(
        (await call(login, 'GET', 'history?limit=50')).text,
        /"through"/,
        'nor that of the repository',
      )
    }
    t.match((await call('alice', 'GET', `pulls/${index}/history`)).text, /"through":"collaborator"/)
  },
)

t.test('evidence.2: a private repository does not show whether it has the pull request', async (t) => {
  const own = await repository(t, 'private', { private: true })
  const { branches, open, merge, call } = own
  await branches('topic')
  const index = await open('topic')
  await merge(index)
  t.equal((await evidence(own, index)).number, index)
  const hidden = await call('dave', 'GET', `pulls/${index}/evidence`)
  t.equal(hidden.status, 404)
  t.equal(hidden.text, (await call('dave', 'GET', 'pulls/99/evidence')).text)
})

t.test('evidence.1: the merger got the permission through the organization or a team', async (t) => {
  const teams = await startTeams(t)
  const { onApp } = teams
  await teams.team('mergers', 'write', 'bob')
  for (const [login, granted] of [
    ['alice', { access: 'admin', through: 'organization' }],
    ['bob', { access: 'write', through: 'team' }],
    ['admin', { access: 'admin', through: 'site-admin' }],
  ] as const) {
    const index = await teams.open(`by-${login}`)
    t.equal((await onApp(login, 'POST', `pulls/${index}/merge`, { Do: 'merge' })).status, 200)
    t.match((await onApp('alice', 'GET', `pulls/${index}/evidence`)).body.merge, granted, login)
  }
})
