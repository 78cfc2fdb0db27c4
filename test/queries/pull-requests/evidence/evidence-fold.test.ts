import t from 'tap'
import type { BranchProtection } from '../../../../src/events/catalog/branches.ts'
import type { AccountRef } from '../../../../src/events/catalog/parts.ts'
import type { MergeDecision } from '../../../../src/events/catalog/pull-requests.ts'
import type { CommitState } from '../../../../src/events/catalog/statuses.ts'
import type { DomainEvent, Recorded } from '../../../../src/events/domain-events.ts'
import { evidenceOf } from '../../../../src/queries/pull-requests/evidence/evidence.fold.ts'
import { reportLine, reportRow } from '../../../../src/queries/pull-requests/evidence/report.ts'
import { at } from '../../../projections/document-of.ts'

const alice = { id: 1, login: 'alice' }
const bob = { id: 2, login: 'bob' }
const carol = { id: 3, login: 'carol' }
const sha = (digit: string) => digit.repeat(40)
const [head, base, commit] = [sha('a'), sha('b'), sha('c')]
const ofPull = { repoId: 7, index: 3 }
const diff = { additions: 1, deletions: 0, changedFiles: 1 }

const opened: DomainEvent = {
  type: 'PullRequestOpened',
  data: {
    ...ofPull,
    id: 30,
    poster: alice,
    title: 'Add a thing',
    body: '',
    head: { repoId: 7, branch: 'topic', sha: head },
    base: { repoId: 7, branch: 'main', sha: base },
    mergeBase: base,
    diff,
    mergeable: true,
    labels: [],
    milestone: null,
    assignees: [],
    deadline: null,
  },
}
const intent = {
  style: 'merge',
  baseBranch: 'main',
  from: base,
  head,
  mergeBase: base,
  commit,
  message: '',
  by: bob,
  deleteBranch: false,
} as const
const decision: MergeDecision = {
  access: 'write',
  through: 'collaborator',
  forced: false,
  bypassed: [],
  protection: null,
  checks: null,
  checksRevision: null,
  approvals: null,
  reviews: [],
}
const started = (facts?: Partial<MergeDecision>): DomainEvent => ({
  type: 'MergeStarted',
  data: { ...ofPull, ...intent, ...(facts && { decision: { ...decision, ...facts } }) },
})
const merged: DomainEvent = {
  type: 'PullRequestMerged',
  data: {
    ...ofPull,
    style: 'merge',
    commit,
    head,
    mergeBase: base,
    mergedBy: bob,
    milestone: null,
    deleteBranch: false,
  },
}
const protection: BranchProtection = {
  id: 5,
  rule: 'main',
  priority: 1,
  push: false,
  pushers: null,
  mergers: null,
  statusCheck: true,
  contexts: ['ci'],
  requireSigned: false,
  blockOutdated: false,
  blockAdminOverride: false,
  createdAt: at(0),
  updatedAt: at(0),
}
const protect = (changes: Partial<BranchProtection> = {}): DomainEvent => ({
  type: 'BranchProtectionSet',
  data: { repoId: 7, protection: { ...protection, ...changes } },
})
const status = (state: CommitState, context = 'ci'): DomainEvent => ({
  type: 'CommitStatusPosted',
  data: { id: 1, repoId: 7, sha: head, context, state, description: '', targetUrl: '', creator: carol },
})
const review = (reviewId: number, reviewer: AccountRef, superseded: number[] = []): DomainEvent => ({
  type: 'ReviewSubmitted',
  data: {
    ...ofPull,
    reviewId,
    reviewer,
    verdict: 'approved',
    body: '',
    commit: head,
    mergeBase: base,
    official: true,
    stale: false,
    comments: [],
    superseded,
    answered: [],
  },
})

const STREAMS: Partial<Record<DomainEvent['type'], string>> = {
  BranchProtectionSet: 'repo-7',
  BranchProtectionRemoved: 'repo-7',
  CommitStatusPosted: `checks-7.${head}`,
}

/** The events as recorded by the actor, one second apart. */
function given(...events: DomainEvent[]): Recorded<DomainEvent>[] {
  const ends = new Map<string, number>()
  return events.map((event, i) => {
    const stream = STREAMS[event.type] ?? 'pull-7.3'
    const revision = (ends.get(stream) ?? -1) + 1
    ends.set(stream, revision)
    const metadata = {
      actor: carol,
      at: at(i),
      correlationId: 'c',
      causationId: 'c',
      schema: 1,
      credential: 'token',
      hash: `hash ${i}`,
    } as const
    return { ...event, id: `${i}`, stream, revision, position: i + 1, metadata }
  })
}

const facts = (...events: DomainEvent[]) => evidenceOf(given(...events), async () => {})

t.test('evidence.1: given no merge, then no evidence', async (t) => {
  t.equal(await facts(), undefined)
  t.equal(await facts(opened, started({})), undefined)
})

t.test(
  'evidence.1: given a merge without a decision, then its facts are null with their names',
  async (t) => {
    t.match(await facts(protect(), opened, status('success'), started(), merged), {
      merge: {
        access: null,
        through: null,
        forced: null,
        bypassed: null,
        scheduled: null,
        credential: 'token',
      },
      protection: { rule: 'main', event: { stream: 'repo-7', revision: 0, hash: 'hash 0' } },
      checks: { required: true, outcome: null, statuses: [{ context: 'ci', state: 'success' }] },
      not_recorded: [
        'merge.access',
        'merge.through',
        'merge.scheduled',
        'merge.forced',
        /bypassed/,
        /outcome/,
        /counted/,
        'merge.move',
      ],
    })
  },
)

t.test('evidence.1: the protection is the one that the decision names', async (t) => {
  const named = { protection: { id: 5, updatedAt: at(0) } }
  const later = protect({ updatedAt: at(3), contexts: ['other'] })
  t.match(await facts(protect(), opened, later, started(named), merged), {
    protection: { settings: { contexts: ['ci'] }, changed_at: at(0), changed_by: carol },
  })
  t.match(await facts(opened, started(named), merged), {
    protection: null,
    not_recorded: ['protection', 'merge.move'],
  })
  t.match(await facts(protect(), opened, started({}), merged), {
    protection: null,
    not_recorded: ['merge.move'],
  })
})

t.test('evidence.5: a protection that was not found is not recorded, instead of no protection', async (t) => {
  const rowOf = async (found: Awaited<ReturnType<typeof facts>>) => {
    if (found === undefined) throw new Error('no merge')
    return reportRow(found, 'A title', 'https://example.org/evidence')
  }
  const lost = await rowOf(await facts(opened, started({ protection: { id: 5, updatedAt: at(0) } }), merged))
  t.match(lost, { protection_rule: null, not_recorded: ['protection', 'merge.move'] })
  t.match(reportLine(lost), /,not recorded,,no,no,\d+,not recorded,https:/)
  const free = await rowOf(await facts(opened, started({}), merged))
  t.match(reportLine(free), /,,,no,no,\d+,,https:/)
})

t.test('evidence.1: without a decision, it is the one in force', async (t) => {
  const removed: DomainEvent = { type: 'BranchProtectionRemoved', data: { repoId: 7, rule: 'main' } }
  const any = protect({ id: 6, rule: 'ma*', priority: 2 })
  t.match(await facts(protect(), any, opened, started(), merged), { protection: { rule: 'main' } })
  t.match(await facts(protect(), any, removed, opened, started(), merged), { protection: { rule: 'ma*' } })
  t.match(await facts(opened, started(), protect(), merged), { protection: null }, 'later ones were not')
})

t.test('evidence.1: statuses are those that the decision read', async (t) => {
  const events = [status('pending'), status('success'), status('failure', 'docs')]
  const read = { checksRevision: 1 }
  t.match(await facts(opened, ...events, started(read), merged), {
    checks: { statuses: [{ context: 'ci', state: 'success', event: { revision: 1 } }] },
  })
  t.match(await facts(opened, ...events, started({ checksRevision: null }), merged), {
    checks: { statuses: [] },
  })
})

t.test('evidence.1: reviews between the decision and the merge do not count', async (t) => {
  const found = await facts(opened, review(1, carol), started({ approvals: [1] }), review(2, bob), merged)
  t.match(found?.reviews, [{ id: 1, counted: true }])
  t.equal(found?.reviews.length, 1)
})

t.test('evidence.1: a failed merge is not the decision', async (t) => {
  const failed: DomainEvent = { type: 'MergeFailed', data: { ...ofPull, commit, reason: 'moved' } }
  t.match(await facts(opened, started({ access: 'read' }), failed, review(1, carol), started({}), merged), {
    merge: { access: 'write', decided: { revision: 4 } },
    reviews: [{ id: 1 }],
  })
})

t.test('evidence.1: dismissals', async (t) => {
  const dismissed: DomainEvent = {
    type: 'ReviewDismissed',
    data: { ...ofPull, reviewId: 1, reviewer: bob, dismissed: [1], message: '' },
  }
  const undismissed: DomainEvent = {
    type: 'ReviewUndismissed',
    data: { ...ofPull, reviewId: 1, reviewer: bob },
  }
  t.match(await facts(opened, review(1, bob), dismissed, started({}), merged), {
    reviews: [{ dismissed: true, dismissed_by: carol, dismissed_at: at(2), dismissal: { revision: 2 } }],
    four_eyes: true,
  })
  t.match(await facts(opened, review(1, bob), dismissed, undismissed, started({}), merged), {
    reviews: [{ dismissed: false, dismissed_by: null, dismissal: null }],
  })
  t.match(await facts(opened, review(1, bob), review(2, bob, [1]), started({}), merged), {
    reviews: [
      { id: 1, dismissed: true, dismissed_by: null, dismissal: { revision: 2 } },
      { id: 2, dismissed: false },
    ],
  })
})

t.test('evidence.1: four eyes', async (t) => {
  const byAlice: DomainEvent = { ...merged, data: { ...merged.data, mergedBy: alice } }
  const moved: DomainEvent = {
    type: 'PullRequestHeadMoved',
    data: { ...ofPull, from: base, to: head, mergeBase: base, diff },
  }
  const stale: DomainEvent = {
    type: 'ReviewsOutdated',
    data: { ...ofPull, head, stale: [1], current: [], dismissed: [] },
  }
  const eyes = async (...events: DomainEvent[]) => (await facts(...events))?.four_eyes
  t.equal(await eyes(opened, started({}), merged), true, 'another user merged')
  t.equal(await eyes(opened, started({}), byAlice), false)
  t.equal(await eyes(opened, review(1, bob), started({}), byAlice), true, 'another user approved')
  t.equal(
    await eyes(opened, moved, review(1, carol), started({}), byAlice),
    false,
    'only the last pusher did',
  )
  t.equal(await eyes(opened, review(1, bob), stale, started({}), byAlice), false, 'an earlier state')
})
