import t from 'tap'
import {
  isMergeStyle,
  type MergeFacts,
  type MergeRequest,
  mergeRefusal,
} from '../../../src/commands/pull-requests/merge-checks.decider.ts'
import { type PullState, pullDecider } from '../../../src/commands/pull-requests/pull-request.decider.ts'
import { refuse } from '../../../src/errors/refusal.ts'
import type { BranchProtection } from '../../../src/events/catalog/branches.ts'
import type { PullRequestEvent } from '../../../src/events/catalog/pull-requests.ts'
import { DEFAULT_MERGE_SETTINGS } from '../../../src/events/repository-settings.ts'

const sha = (digit: string) => digit.repeat(40)
const alice = { id: 1, login: 'alice' }
const id = { repoId: 7, index: 3 }
const opened = (title = 'Add a thing'): PullRequestEvent => ({
  type: 'PullRequestOpened',
  data: {
    ...id,
    id: 30,
    poster: alice,
    title,
    body: '',
    head: { repoId: 7, branch: 'topic', sha: sha('a') },
    base: { repoId: 7, branch: 'main', sha: sha('b') },
    mergeBase: sha('b'),
    diff: { additions: 1, deletions: 0, changedFiles: 1 },
    mergeable: true,
    labels: [],
    milestone: null,
    assignees: [],
    deadline: null,
  },
})
const closed: PullRequestEvent = {
  type: 'StatusChanged',
  data: { ...id, closed: true, comment: { id: 1, kind: 'close' }, milestone: null },
}
const merged: PullRequestEvent = {
  type: 'PullRequestMerged',
  data: {
    ...id,
    style: 'merge',
    commit: sha('c'),
    head: sha('a'),
    mergeBase: null,
    mergedBy: alice,
    milestone: null,
    deleteBranch: false,
  },
}
const fold = (...events: PullRequestEvent[]): PullState =>
  events.reduce((state, event) => pullDecider.evolve(state, event), pullDecider.initialState)

const open = fold(opened())
const plain: MergeRequest = { style: 'merge', force: false, scheduling: false }
const fine: MergeFacts = {
  mayMerge: true,
  allowedStyles: [...DEFAULT_MERGE_SETTINGS.mergeStyles],
  protection: undefined,
  officialReviews: new Set(),
  granted: { access: 'write', through: 'collaborator' },
  checks: 'pending',
  checksRevision: null,
  headTip: sha('a'),
  baseTip: sha('b'),
  outdated: false,
  wouldBeSigned: false,
  openDependencies: [],
}
const protection: BranchProtection = {
  id: 1,
  rule: 'main',
  priority: 1,
  push: false,
  pushers: null,
  mergers: null,
  statusCheck: false,
  contexts: [],
  requireSigned: false,
  blockOutdated: false,
  blockAdminOverride: false,
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: '2026-01-01T00:00:00Z',
}
const protectedBy = (rules: Partial<BranchProtection>, facts: Partial<MergeFacts> = {}): MergeFacts => ({
  ...fine,
  ...facts,
  protection: { ...protection, ...rules },
})

t.test('merge.2: the reasons against a merge', async (t) => {
  for (const style of DEFAULT_MERGE_SETTINGS.mergeStyles) {
    t.equal(mergeRefusal(open, { ...plain, style }, fine), undefined, style)
  }
  t.equal(mergeRefusal(open, plain, protectedBy({})), undefined, 'a protection that asks for nothing')
})

t.test('merge.2: a closed pull request is not found, and other refusals give the reason', async (t) => {
  t.match(mergeRefusal(fold(), plain, fine), { refused: 'notFound' })
  t.match(mergeRefusal(fold(opened(), closed), plain, fine), { refused: 'notFound', message: /closed/ })
  const notAllowed: [string, RegExp, PullState, MergeFacts][] = [
    ['merged', /merged already/, fold(opened(), merged), fine],
    ['not a merger', /not allowed to merge/, open, { ...fine, mayMerge: false }],
    ['a work in progress', /work in progress/, fold(opened('WIP: later')), fine],
    ['no head branch', /cannot be merged: the head branch topic/, open, { ...fine, headTip: null }],
    ['no base branch', /cannot be merged: the base branch main/, open, { ...fine, baseTip: null }],
    ['dependencies', /depends/, open, { ...fine, openDependencies: ['#1', '#2'] }],
  ]
  for (const [name, message, state, facts] of notAllowed) {
    t.match(mergeRefusal(state, plain, facts), { refused: 'notAllowed', message }, name)
  }
  const dependent = { ...fine, openDependencies: ['#1', '#2'] }
  t.match(mergeRefusal(open, plain, dependent)?.message, /open issues: #1, #2$/)
})

t.test(
  'merge.2: a refused merge has all reasons in errors, and the status and the message of the first',
  async (t) => {
    const rules = { statusCheck: true, blockOutdated: true, requireSigned: true }
    const facts = protectedBy(rules, {
      outdated: true,
      openDependencies: ['#1'],
      headTip: null,
      allowedStyles: ['squash'],
    })
    const refused = mergeRefusal(fold(opened('WIP: later')), plain, facts)
    t.strictSame(refused, {
      refused: 'notAllowed',
      message: 'Do: merge is not allowed in this repository',
      errors: [
        'Do: merge is not allowed in this repository',
        'the pull request is a work in progress',
        'the pull request cannot be merged: the head branch topic is gone',
        'the pull request depends on open issues: #1',
        'protection "main": requires signed commits, and this merge would add unsigned ones',
        'protection "main": the required status checks are pending',
        'protection "main": the head branch lacks commits of the base branch',
      ],
    })
    const one = mergeRefusal(open, plain, protectedBy({ statusCheck: true }))
    t.strictSame(one?.errors, [one?.message], 'also when there is only one')
    const stranger = mergeRefusal(open, plain, { ...facts, mayMerge: false })
    t.strictSame(stranger, refuse.notAllowed('you are not allowed to merge this pull request'))
    const conflict: PullRequestEvent = {
      type: 'MergeabilityChecked',
      data: { ...id, head: sha('a'), base: sha('b'), mergeable: false, conflicts: ['a.txt'] },
    }
    const conflicting = fold(opened(), conflict)
    t.equal(mergeRefusal(conflicting, plain, fine), undefined, 'a conflict alone is tried')
    t.equal(mergeRefusal(conflicting, plain, protectedBy({ statusCheck: true }))?.errors?.length, 2)
  },
)

t.test('merge.2: protection rules apply, and the refusal names the rule', async (t) => {
  const refusals: [string, RegExp, MergeFacts, MergeFacts][] = [
    [
      'checks',
      /"main": the required status checks are pending/,
      protectedBy({ statusCheck: true }),
      protectedBy({ statusCheck: true }, { checks: 'success' }),
    ],
    [
      'failed checks',
      /"main": the required status checks are failed/,
      protectedBy({ statusCheck: true }, { checks: 'failed' }),
      protectedBy({ statusCheck: false }, { checks: 'failed' }),
    ],
    [
      'an outdated head',
      /"main": the head branch lacks commits/,
      protectedBy({ blockOutdated: true }, { outdated: true }),
      protectedBy({ blockOutdated: true }),
    ],
    [
      'signatures',
      /"main": requires signed commits/,
      protectedBy({ requireSigned: true }),
      protectedBy({ requireSigned: true }, { wouldBeSigned: true }),
    ],
  ]
  for (const [name, message, refused, passed] of refusals) {
    t.match(mergeRefusal(open, plain, refused), { refused: 'notAllowed', message }, name)
    t.equal(mergeRefusal(open, plain, passed), undefined, name)
  }
})

t.test('merge.2: an admin may force what protections refuse, but no unsigned merge', async (t) => {
  const force = { ...plain, force: true }
  const strict = protectedBy({ statusCheck: true, blockOutdated: true }, { outdated: true })
  t.equal(mergeRefusal(open, force, strict), undefined)
  const bound = protectedBy({ statusCheck: true, blockAdminOverride: true })
  t.match(mergeRefusal(open, force, bound), { refused: 'notAllowed', message: /status checks/ })
  t.match(mergeRefusal(open, force, protectedBy({ requireSigned: true })), { refused: 'notAllowed' })
  const dependent = { ...strict, openDependencies: ['#1'] }
  t.match(mergeRefusal(open, force, dependent), { refused: 'notAllowed', message: /depends/ })
})

t.test('merge.6: a merge that waits for its checks does not need them yet', async (t) => {
  const scheduling = { ...plain, scheduling: true }
  t.equal(mergeRefusal(open, scheduling, protectedBy({ statusCheck: true })), undefined)
  const outdated = protectedBy({ blockOutdated: true }, { outdated: true })
  t.match(mergeRefusal(open, scheduling, outdated), { refused: 'notAllowed' })
})

t.test('merge.3: a manual merge depends only on state, permission and style', async (t) => {
  const manual = { ...plain, style: 'manually-merged' }
  t.match(mergeRefusal(open, manual, fine), { refused: 'notAllowed', message: /manually-merged/ })
  const allowed = { ...fine, allowedStyles: ['manually-merged' as const], headTip: null }
  t.equal(mergeRefusal(fold(opened('WIP: done by hand')), manual, allowed), undefined)
  t.match(mergeRefusal(open, manual, { ...allowed, mayMerge: false }), { refused: 'notAllowed' })
  t.match(mergeRefusal(fold(opened(), closed), manual, allowed), { refused: 'notFound' })
})

t.test('merge.7: styles that are unknown or switched off are not allowed', async (t) => {
  for (const style of ['octopus', 'Merge', 'constructor', '__proto__', ' merge']) {
    t.notOk(isMergeStyle(style))
    t.match(mergeRefusal(open, { ...plain, style }, fine), { refused: 'notAllowed', message: /Do: / }, style)
  }
  const squashOnly = { ...fine, allowedStyles: ['squash' as const] }
  t.match(mergeRefusal(open, plain, squashOnly), { refused: 'notAllowed', message: /Do: merge/ })
  t.equal(mergeRefusal(open, { ...plain, style: 'squash' }, squashOnly), undefined)
})

t.test('merge.7: another head is a conflict, checked after what is not allowed', async (t) => {
  const stale = { ...plain, expectedHead: sha('f') }
  t.match(mergeRefusal(open, stale, fine), { refused: 'conflict', message: /head_commit_id/ })
  t.equal(mergeRefusal(open, { ...plain, expectedHead: sha('a') }, fine), undefined)
  t.match(mergeRefusal(open, plain, { ...fine, headTip: sha('f') }), { refused: 'conflict' })
  const unchecked = protectedBy({ statusCheck: true }, { headTip: sha('f') })
  t.match(mergeRefusal(open, stale, unchecked), { refused: 'notAllowed' })
})
