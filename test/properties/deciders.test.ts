/** No sequence of commands reaches a state that the rules forbid. Each title names the source of its rule. */
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import t from 'tap'
import * as aggregates from '../../src/commands/execution/aggregates.ts'
import { entriesOf, valueAt } from '../../src/commands/execution/id-map.ts'
import type { ActivePull, PullState } from '../../src/commands/pull-requests/pull-request.decider.ts'
import { isWorkInProgress } from '../../src/domain/work-in-progress.ts'
import type { IssueRef } from '../../src/events/catalog/parts.ts'
import { KNOWN_TYPES } from '../../src/events/codec.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { sameIssue } from '../../src/projections/models/issues/discussion.ts'
import { commentRefs } from './discussion-commands.ts'
import { type History, histories, played, pullHistories } from './histories.ts'
import { isAdmin, isWriter } from './values.ts'
import { emptyWorld, SETTINGS, type Step, type World } from './world.ts'

/** A rule that holds in each world, after all its commands. */
function always(title: string, rule: (world: World) => void, from: fc.Arbitrary<History> = histories): void {
  t.test(title, async () => {
    fc.assert(
      fc.property(from, (history) => rule(played(history))),
      SETTINGS,
    )
  })
}

/** A rule for each change of a pull request that existed before. */
function eachPull(
  title: string,
  rule: (step: Step<PullState> & { before: ActivePull; after: ActivePull; types: string[] }) => void,
): void {
  const ofSteps = ({ pulls }: World) => {
    for (const step of pulls.steps) {
      const { before, after, events } = step
      if (before.status === 'none' || after.status === 'none') continue
      rule({ ...step, before, after, types: events.map(({ type }) => type) })
    }
  }
  always(title, ofSteps, pullHistories)
}

const once = <T>(all: readonly T[], what: string) => assert.equal(new Set(all).size, all.length, what)

t.test('every decider gets commands, and each of its events happens', async (t) => {
  const world = emptyWorld()
  t.ok(Object.keys(aggregates).every((name) => name in world))
  const here = fileURLToPath(new URL('.', import.meta.url))
  const files = (await readdir(here)).filter((name) => name.endsWith('-commands.ts'))
  const commands = await Promise.all(files.map((name) => readFile(join(here, name), 'utf8')))
  const source = fileURLToPath(new URL('../../src/commands', import.meta.url))
  for (const entry of await readdir(source, { recursive: true })) {
    if (!entry.endsWith('.ts')) continue
    const text = await readFile(join(source, entry), 'utf8')
    for (const [, name = ''] of text.matchAll(/^export function (decide[A-Z]\w+)/gm)) {
      t.match(commands.join(), new RegExp(`\\b${name}\\b`), `${name} is given commands`)
    }
  }
  const seen = new Set<string>()
  for (const history of fc.sample(fc.oneof(histories, pullHistories), { ...SETTINGS, numRuns: 1200 })) {
    for (const { type } of played(history).log) seen.add(type)
  }
  const withoutDecider = [
    'IssueRead',
    'LeftDocumentsRemoved',
    'LfsObjectsAdded',
    'LogCheckpointSigned',
    'NotificationMarked',
    'ReferencesRecorded',
    'UsersMentioned',
    'NumberTaken',
    'ClaimTaken',
    'ClaimReleased',
    'CreationAbandoned',
  ]
  t.strictSame([...seen, ...withoutDecider].sort(), KNOWN_TYPES.toSorted())
})

eachPull('a merged pull request never changes back, and keeps what was merged', ({ before, after }) => {
  if (before.status !== 'merged') return
  assert.equal(after.status, 'merged')
  assert.equal(after.closed, true)
  assert.deepEqual([after.head, after.base, after.mergeBase], [before.head, before.base, before.mergeBase])
})

eachPull('a closed pull request keeps its commits, and is not merged', ({ before, after }) => {
  if (before.status !== 'closed') return
  assert.notEqual(after.status, 'merged')
  const commits = ({ head, base, mergeBase }: typeof after) => [head.sha, base.sha, mergeBase]
  assert.deepEqual(commits(after), commits(before))
})

eachPull(
  'a closed pull request keeps its branches, unless they get other names',
  ({ before, after, types }) => {
    if (before.status !== 'closed' || types.includes('PullRequestBranchRenamed')) return
    assert.deepEqual([after.head, after.base], [before.head, before.base])
  },
)

eachPull('only writers merge, and no work in progress (merge.2)', ({ before, types, events }) => {
  if (!types.includes('MergeStarted') && !types.includes('MergeScheduled')) return
  assert.equal(before.status, 'open')
  assert.equal(isWorkInProgress(before.title), false)
  for (const { data } of events) assert.ok('by' in data && data.by !== null && isWriter(data.by))
})

eachPull('a merge has one outcome, and no other begins before it', ({ before, after, types }) => {
  if (types.includes('MergeStarted')) assert.ok(before.merging === null && after.merging !== null)
  else if (types.includes('MergeFailed')) assert.ok(before.merging !== null && after.status === 'open')
  else if (types.includes('PullRequestMerged')) assert.equal(after.status, 'merged')
  else assert.deepEqual(after.merging, before.merging)
  if (after.status !== 'open') assert.equal(after.merging, null)
})

eachPull(
  'what is merged is what was decided: the commit and the head of the intent',
  ({ before, events }) => {
    for (const { type, data } of events) {
      if (type === 'MergeStarted') assert.equal(data.head, before.head.sha)
      if (type !== 'PullRequestMerged') continue
      const { commit, head } = before.merging ?? { commit: data.commit, head: before.head.sha }
      assert.deepEqual([data.commit, data.head], [commit, head])
    }
  },
)

eachPull('a merge with head_commit_id is of that head (merge.7)', ({ after }) => {
  const expected = after.schedule?.expectedHead ?? null
  if (expected !== null) assert.equal(after.head.sha, expected)
})

eachPull(
  'nobody gives a verdict on their own pull request, nor on one that is not open; one draft and one request each',
  ({ before, after, events }) => {
    for (const { type, data } of events) {
      if (type !== 'ReviewSubmitted' || data.verdict === 'comment') continue
      assert.ok(before.status === 'open' && data.reviewer.id !== before.poster.id)
    }
    for (const kind of ['pending', 'request', 'team-request']) {
      once(
        after.reviews.filter((review) => review.kind === kind).map(({ reviewer }) => reviewer.id),
        kind,
      )
    }
    const counting = after.reviews.filter(({ official, dismissed }) => official && !dismissed)
    once(
      counting.filter(({ kind }) => !kind.endsWith('request')).map(({ reviewer }) => reviewer.id),
      'one verdict of each reviewer counts',
    )
  },
)

eachPull('one schedule at a time, and only of an open one (merge.6)', ({ before, after, types }) => {
  if (after.status !== 'open') assert.equal(after.schedule, null)
  if (types.includes('MergeScheduled')) assert.ok(before.status === 'open' && before.schedule === null)
})

eachPull(
  'a schedule ends as the history says, and not while a merge is under way',
  ({ before, after, types, by }) => {
    if (before.schedule === null || after.schedule !== null) return
    const ends = ['PullRequestMerged', 'MergeScheduleCanceled', 'ScheduledMergeRefused']
    assert.equal(types.filter((type) => ends.includes(type)).length, 1)
    if (before.merging !== null) {
      assert.ok(types.includes('PullRequestMerged') || types.includes('PullRequestHeadMoved'))
    }
    if (types.includes('MergeScheduleCanceled') && !after.closed) {
      assert.ok(isAdmin(by) || by.id === before.schedule.by.id, 'DELETE merge: 403 for others')
    }
  },
)

eachPull(
  'a schedule ends when strangers move the head, or another user changes the base',
  ({ before, after, types, by }) => {
    if (types.includes('PullRequestHeadMoved') && !isWriter(by)) assert.equal(after.schedule, null)
    if (types.includes('TargetBranchChanged') && before.schedule?.by.id !== by.id) {
      assert.equal(after.schedule, null)
    }
  },
)

eachPull(
  'the base changes only while it is open and not being merged (pulls.edit.6)',
  ({ before, types }) => {
    if (types.includes('TargetBranchChanged')) assert.ok(before.status === 'open' && before.merging === null)
  },
)

eachPull('the head branch is deleted once, after the merge (merge.8)', ({ before, types }) => {
  if (types.includes('HeadBranchDeleted')) assert.ok(before.status === 'merged' && !before.headBranchDeleted)
})

eachPull('that the head branch stays is recorded once, after the merge (merge.8)', ({ before, types }) => {
  if (types.includes('HeadBranchKept')) assert.ok(before.status === 'merged' && !before.headBranchKept)
})

eachPull('an event that changes a value says what it was before', ({ before, after, events }) => {
  for (const { type, data } of events) {
    if (type === 'TitleChanged') assert.equal(data.oldTitle, before.title)
    if (type === 'MilestoneChanged') assert.deepEqual(data.from, before.milestone)
    if (type === 'DeadlineChanged') assert.equal(data.from, before.deadline)
    if (type === 'IssueRefChanged') assert.equal(data.from, before.ref ?? '')
    if (type === 'PullRequestHeadMoved') assert.equal(data.from, before.head.sha)
    if (type === 'MergeBaseMoved') assert.equal(data.from, before.mergeBase)
    if (type === 'TargetBranchChanged') assert.deepEqual(data.from, before.base)
    if (type !== 'LabelsChanged' && type !== 'AssigneesChanged') continue
    const removed = new Set(data.removed.map(({ id }) => id))
    const [was, is] =
      type === 'LabelsChanged' ? [before.labels, after.labels] : [before.assignees, after.assignees]
    const kept = was.filter(({ id }) => !removed.has(id))
    const ids = (all: readonly { id: number }[]) => all.map(({ id }) => id).sort()
    assert.deepEqual(ids([...kept, ...data.added]), ids(is))
  }
})

always('labels and assignees are there once', ({ issues, pulls }) => {
  for (const { after } of [...issues.steps, ...pulls.steps]) {
    if (after.status === 'none') continue
    once(
      after.labels.map(({ id }) => id),
      'labels',
    )
    once(
      after.assignees.map(({ id }) => id),
      'assignees',
    )
  }
})

/** The open issues by stream, and their dependencies: from the log alone. */
function replayed(
  log: readonly Recorded<DomainEvent>[],
  each: (event: Recorded<DomainEvent>, so: Past) => void,
) {
  const past: Past = { closed: new Map(), dependencies: new Map() }
  for (const event of log) {
    each(event, past)
    if (!('index' in event.data)) continue
    const key = keyOf(event.data)
    const before = past.dependencies.get(key) ?? []
    if (event.type === 'IssueOpened' || event.type === 'PullRequestOpened') past.closed.set(key, false)
    if (event.type === 'StatusChanged') past.closed.set(key, event.data.closed)
    if (event.type === 'PullRequestMerged') past.closed.set(key, true)
    if (event.type === 'DependencyAdded') past.dependencies.set(key, [...before, event.data.dependency])
    if (event.type === 'DependencyRemoved') {
      const { dependency } = event.data
      past.dependencies.set(
        key,
        before.filter((other) => !sameIssue(other, dependency)),
      )
    }
  }
  return past
}
interface Past {
  closed: Map<string, boolean>
  dependencies: Map<string, readonly IssueRef[]>
}
const keyOf = ({ repoId, index }: IssueRef) => `${repoId}.${index}`

always('a number of a repository is opened once, then closed and reopened in turn', ({ log }) => {
  replayed(log, ({ type, data }, { closed }) => {
    if (type === 'IssueOpened' || type === 'PullRequestOpened') assert.ok(!closed.has(keyOf(data)))
    if (type === 'StatusChanged') assert.equal(closed.get(keyOf(data)), !data.closed)
    if (type === 'PullRequestMerged') assert.equal(closed.get(keyOf(data)), false)
  })
})

always('nothing is closed or merged by request while a dependency is open (412, 405)', ({ log }) => {
  replayed(log, ({ type, data }, { closed, dependencies }) => {
    const closes = type === 'StatusChanged' && data.closed && data.branchGone === undefined
    if (type !== 'MergeStarted' && !closes) return
    for (const dependency of dependencies.get(keyOf(data)) ?? []) assert.ok(closed.get(keyOf(dependency)))
  })
})

always('no issue depends on itself, twice on another, or in a circle', ({ log }) => {
  const { dependencies } = replayed(log, () => {})
  const reaches = (from: IssueRef, to: string, seen: Set<string>): boolean =>
    (dependencies.get(keyOf(from)) ?? []).some((next) => {
      if (keyOf(next) === to) return true
      if (seen.has(keyOf(next))) return false
      return reaches(next, to, seen.add(keyOf(next)))
    })
  for (const [key, all] of dependencies) {
    once(all.map(keyOf), key)
    for (const next of all) assert.ok(keyOf(next) !== key && !reaches(next, key, new Set()), key)
  }
})

/** The first and last events of each kind of stream. A comment lives inside the stream of its issue. */
const LIVES = {
  user: ['UserCreated', 'UserDeleted'],
  org: ['OrganizationCreated', 'OrganizationDeleted'],
  repo: ['RepositoryCreated', 'RepositoryDeleted'],
  label: ['LabelCreated', 'LabelDeleted'],
  milestone: ['MilestoneCreated', 'MilestoneDeleted'],
  webhook: ['WebhookCreated', 'WebhookDeleted'],
  release: ['ReleaseCreated', 'ReleaseDeleted'],
  issue: ['IssueOpened', 'IssueDeleted'],
  pull: ['PullRequestOpened'],
  comment: ['CommentAdded', 'CommentDeleted'],
}

always('nothing is decided for what does not exist, and what was deleted never comes back', ({ log }) => {
  const lives = new Map<string, 'there' | 'gone'>()
  const lived = (key: string, type: string, [begins, ends]: readonly string[]) => {
    assert.equal(lives.get(key), type === begins ? undefined : 'there', `${type} of ${key}`)
    if (type === begins || type === ends) lives.set(key, type === begins ? 'there' : 'gone')
  }
  for (const { stream, type, data } of log) {
    const isOther = type === 'HeadBranchDeleted' || type === 'TextsErased' || type.startsWith('Review')
    const isOfComment = 'commentId' in data && !isOther
    if (isOfComment && data.commentId !== null) lived(`comment ${data.commentId}`, type, LIVES.comment)
    const life = Object.entries(LIVES).find(([kind]) => stream.startsWith(`${kind}-`))?.[1]
    if (life !== undefined) lived(stream, type, life)
  }
})

always('the id of a token is given once, and no two tokens of a user have one name', ({ log, users }) => {
  once(
    log.flatMap(({ type, data }) => (type === 'TokenCreated' ? data.tokenId : [])),
    'ids',
  )
  for (const { after } of users.steps) {
    if (after.status === 'existing')
      once(
        [...entriesOf(after.tokens)].map(([, { name }]) => name),
        'names',
      )
  }
})

always('a site admin who can sign in is always there', ({ users }) => {
  const admins = new Set<string>()
  for (const { stream, after } of users.steps) {
    const had = admins.size > 0
    admins.delete(stream)
    if (after.status === 'existing') {
      const { siteAdmin, active, prohibitLogin } = after.settings
      if (siteAdmin && active && !prohibitLogin) admins.add(stream)
    }
    if (had) assert.ok(admins.size > 0)
  }
})

always('an account that is deleted owns nothing, and a user is in no organization', ({ log }) => {
  const bonds = new Map<string, number>()
  for (const { type, stream, data } of log) {
    if (type === 'RepositoryCreated') bonds.set(stream, data.owner.id)
    if (type === 'RepositoryTransferred') bonds.set(stream, data.owner.id)
    if (type === 'RepositoryDeleted') bonds.delete(stream)
    if (type === 'MemberSet') bonds.set(`member ${data.user.id}`, data.user.id)
    if (type === 'MemberRemoved') bonds.delete(`member ${data.user.id}`)
    if (type === 'UserDeleted') assert.ok(![...bonds.values()].includes(data.user.id))
    if (type === 'OrganizationDeleted') {
      assert.ok(![...bonds.values()].includes(data.organization.id))
      for (const key of bonds.keys()) if (key.startsWith('member ')) bonds.delete(key)
    }
  }
})

always(
  'an organization keeps an admin, and only admins change the members of others',
  ({ organizations }) => {
    for (const { before, after, events, by } of organizations.steps) {
      assert.ok(
        after.status !== 'active' ||
          [...entriesOf(after.members)].some(([, permission]) => permission === 'admin'),
      )
      if (before.status !== 'active' || valueAt(before.members, by.id) === 'admin') continue
      for (const { type, data } of events) {
        const isOwn = type === 'MemberRemoved' || type === 'TeamMemberRemoved' || type === 'MembershipShown'
        assert.ok(isOwn && data.user.id === by.id)
      }
    }
  },
)

always(
  'a repository has an allowed default style, one rule for a name, and no owner who collaborates',
  (world) => {
    for (const { after } of world.repositories.steps) {
      if (after.status !== 'active') continue
      const { mergeStyles, defaultMergeStyle } = after.settings
      assert.ok(mergeStyles.includes(defaultMergeStyle))
      once(
        after.protections.map(({ rule }) => rule),
        'rules',
      )
      assert.ok(!Object.keys(after.collaborators).includes(`${after.owner.id}`))
    }
  },
)

always('a private fork is published only by who administers the parent', ({ repositories }) => {
  for (const { before, after, by } of repositories.steps) {
    if (before.status !== 'active' || after.status !== 'active' || before.parentId === null) continue
    if (before.settings.private && !after.settings.private) assert.ok(isAdmin(by))
  }
})

always('labels and milestones have names without spaces around, colors and times in one form', (world) => {
  for (const { after } of world.labels.steps) {
    if (after.status !== 'active') continue
    assert.match(after.label.name, /^\S+$/)
    assert.match(after.label.color, /^[0-9a-f]{6}$/)
  }
  for (const { after } of world.milestones.steps) {
    if (after.status !== 'active') continue
    const { title, dueOn } = after.milestone
    assert.match(title, /^\S+$/)
    if (dueOn !== null) assert.equal(new Date(dueOn).toISOString(), dueOn)
  }
})

always('a comment has each of its files once, and goes with all of them', ({ comments }) => {
  for (const { before, after, events } of comments.steps) {
    if (after.status === 'there')
      once(
        after.attachments.map(({ id }) => id),
        'files',
      )
    else if (before.status === 'there') {
      const deleted = events.flatMap(({ type, data }) =>
        type === 'AttachmentDeleted' ? data.attachmentId : [],
      )
      assert.deepEqual(
        deleted,
        before.attachments.map(({ id }) => id),
      )
    }
  }
})

always('the newest status of a context counts', ({ checks }) => {
  for (const { before, after, events } of checks.steps) {
    const posted = new Map(before.posted)
    for (const { type, data } of events)
      if (type === 'CommitStatusPosted') posted.set(data.context, data.state)
    assert.deepEqual(after.posted, posted)
  }
})

always(
  'an upgrade is applied once, at its height or later; modules are sorted and named once',
  ({ chain }) => {
    for (const { before, after, events } of chain.steps) {
      for (const { type, data } of events) {
        if (type === 'PlanScheduled') assert.ok(!before.applied.has(data.plan.name))
        if (type !== 'PlanApplied') continue
        assert.equal(data.name, before.plan?.name)
        assert.ok(BigInt(data.height) >= BigInt(before.plan?.height ?? 0))
      }
      const names = after.moduleVersions.map(({ name }) => name)
      once(names, 'modules')
      assert.deepEqual(names, names.toSorted())
    }
  },
)

/** Each of these is new, even if all its values are equal; or the decision used the earlier stream. */
const NEW_EACH_TIME = [
  'CommitStatusPosted',
  'AttachmentAdded',
  'ReleaseAssetAdded',
  'IssueFileAdded',
  'PasswordChanged',
  'TextsErased',
  'ErasureFinished',
  'WebhookTested',
  'ReviewDrafted',
  'ReviewSubmitted',
  'ReviewCommentAdded',
]

always('a command that is given again changes nothing', (world) => {
  const steps: { again: readonly string[]; events: readonly { type: string }[] }[] = []
  for (const kind of Object.values(world)) if ('steps' in kind) steps.push(...kind.steps)
  for (const { again, events } of steps) {
    const types = events.map(({ type }) => type)
    if (!types.some((type) => NEW_EACH_TIME.includes(type))) assert.deepEqual(again, [], types.join())
  }
})

always('the state after the commands is the one that a load folds from the log', (world) => {
  const { repositories, users, labels, milestones, releases, organizations, issues, pulls, comments, chain } =
    world
  const { follows, reactions } = world
  for (const id of [1, 2, 3]) assert.deepEqual(world.webhooks.loaded(id), world.webhooks.now(id))
  for (const kind of [users, repositories, organizations, labels, milestones, releases]) {
    for (const id of [1, 2, 3, 9]) assert.deepEqual(kind.loaded(id), kind.now(id))
  }
  for (const repoId of [1, 2]) {
    for (const index of [1, 2, 3, 4]) {
      const ref = { repoId, index }
      if (index % 2 === 0) assert.deepEqual(pulls.loaded(ref), pulls.now(ref))
      else assert.deepEqual(issues.loaded(ref), issues.now(ref))
    }
  }
  for (const of of commentRefs) {
    assert.deepEqual(comments.loaded(of), comments.now(of))
    assert.deepEqual(reactions.loaded(of), reactions.now(of))
    const [follow, text] = [
      { repoId: of.repoId, userId: 1 },
      { ...of, commentId: null },
    ]
    assert.deepEqual(follows.loaded(follow), follows.now(follow))
    assert.deepEqual(reactions.loaded(text), reactions.now(text))
  }
  assert.deepEqual(chain.loaded('chain'), chain.now('chain'))
})
