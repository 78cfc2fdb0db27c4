import t from 'tap'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import type { BranchPoint } from '../../src/events/catalog/pull-requests.ts'
import { KNOWN_TYPES } from '../../src/events/codec.ts'
import { describeEvent, isTimelineEvent, type TimelineEvent } from '../../src/web/event-sentences.ts'

const own = { repoId: 1, index: 5 }
const ann: AccountRef = { id: 1, login: 'ann' }
const point: BranchPoint = { repoId: 1, branch: 'top<ic', sha: 'a'.repeat(40) }
const diff = { additions: 2, deletions: 1, changedFiles: 1 }
const sha = (letter: string) => letter.repeat(40)
const bug = { id: 1, name: 'bug' }
const one = { id: 1, title: '1.0' }
const file = { id: 1, uuid: 'u', name: 'log.txt', size: 3, uploader: ann }
const ofReview = { ...own, reviewId: 7 }
const side = 'new' as const
const onLine = {
  ...ofReview,
  ...{ commentId: 8, author: ann, path: 'a.txt', side, line: 3, body: 'x', hunk: '' },
  ...{ commit: sha('a'), base: sha('c') },
}
const submitted = {
  ...ofReview,
  ...{ reviewer: ann, body: 'x', commit: sha('a'), official: true, stale: false },
  ...{ superseded: [], answered: [] },
}

const cases: [TimelineEvent, string][] = [
  [
    {
      type: 'PullRequestOpened',
      data: {
        ...own,
        ...{ id: 1, poster: ann, title: 'T', body: '', head: point, base: { ...point, branch: 'main' } },
        ...{ mergeBase: sha('b'), diff, mergeable: true, labels: [], milestone: null, assignees: [] },
        deadline: null,
      },
    },
    'opened this pull request: top&#60;ic into main, 1 file, +2 −1',
  ],
  [
    {
      type: 'PullRequestHeadMoved',
      data: { ...own, from: sha('a'), to: sha('b'), mergeBase: sha('c'), diff },
    },
    'moved the head from aaaaaaaaaa to bbbbbbbbbb: now 1 file, +2 −1',
  ],
  [
    {
      type: 'MergeabilityChecked',
      data: { ...own, head: sha('a'), base: '', mergeable: true, conflicts: [] },
    },
    'found that aaaaaaaaaa can be merged',
  ],
  [
    {
      type: 'MergeabilityChecked',
      data: { ...own, head: sha('a'), base: '', mergeable: false, conflicts: ['x', '<y>', 'z'] },
    },
    'found conflicts of aaaaaaaaaa in x, &#60;y&#62; and z',
  ],
  [
    {
      type: 'MergeabilityChecked',
      data: {
        ...{ ...own, head: sha('a'), base: '', mergeable: false },
        ...{ conflicts: ['x', 'y'], conflictCount: 10_000 },
      },
    },
    'found conflicts of aaaaaaaaaa in x, y and 9998 more',
  ],
  [
    { type: 'MergeBaseMoved', data: { ...own, from: sha('a'), to: sha('b'), diff } },
    'found the merge base moved from aaaaaaaaaa to bbbbbbbbbb: now 1 file, +2 −1',
  ],
  [
    {
      type: 'TargetBranchChanged',
      data: {
        ...own,
        from: { ...point, branch: 'main' },
        base: { ...point, branch: 'next' },
        mergeBase: '',
        diff,
      },
    },
    'changed the target branch from main to next: now 1 file, +2 −1',
  ],
  [
    { type: 'PullRequestBranchRenamed', data: { ...own, side: 'head', from: 'topic', to: 'theme' } },
    'renamed the head branch from topic to theme',
  ],
  [{ type: 'MaintainerEditChanged', data: { ...own, allowed: true } }, 'allowed edits by maintainers'],
  [
    {
      type: 'MergeStarted',
      data: {
        ...own,
        ...{ style: 'squash', baseBranch: 'main', from: sha('a'), head: sha('b'), mergeBase: null },
        ...{ commit: sha('c'), message: 'm', by: ann, deleteBranch: false },
      },
    },
    'began to merge bbbbbbbbbb into main as one squashed commit',
  ],
  [{ type: 'MergeFailed', data: { ...own, commit: sha('a'), reason: 'no' } }, 'could not complete the merge'],
  [
    {
      type: 'PullRequestMerged',
      data: {
        ...own,
        ...{ style: 'rebase', commit: sha('c'), head: sha('b'), mergeBase: null, mergedBy: ann },
        ...{ milestone: null, deleteBranch: false },
      },
    },
    'merged this pull request as a rebase: cccccccccc',
  ],
  [
    { type: 'HeadBranchDeleted', data: { ...own, commentId: 1, branch: { ...point, branch: 'x' } } },
    'deleted the branch x',
  ],
  [
    { type: 'HeadBranchKept', data: { ...own, branch: { ...point, branch: 'x' }, reason: 'why' } },
    'kept the branch x',
  ],
  [
    {
      type: 'MergeScheduled',
      data: {
        ...own,
        style: 'merge',
        title: '',
        message: '',
        deleteBranch: false,
        by: ann,
        expectedHead: null,
        waitsFor: ['checks'],
      },
    },
    'scheduled the merge as a merge commit, which waits for its checks',
  ],
  [
    {
      type: 'MergeScheduled',
      data: {
        ...own,
        style: 'rebase',
        title: '',
        message: '',
        deleteBranch: false,
        by: ann,
        expectedHead: sha('a'),
        waitsFor: ['reviews', 'first-check'],
      },
    },
    'scheduled the merge of aaaaaaaaaa as a rebase, which waits for the reviews that the branch requires and the first check of its head',
  ],
  [{ type: 'MergeScheduleCanceled', data: { ...own, by: ann } }, 'canceled the scheduled merge'],
  [
    { type: 'ScheduledMergeRefused', data: { ...own, head: sha('a'), reason: 'r', errors: ['e'] } },
    'gave up the scheduled merge of aaaaaaaaaa',
  ],
  [
    { type: 'TitleChanged', data: { ...own, oldTitle: 'a', title: '<b>' } },
    'changed the title from a to &#60;b&#62;',
  ],
  [
    { type: 'IssueFileAdded', data: { ...own, attachment: { ...file, createdAt: '' } } },
    'attached the file log.txt to the description',
  ],
  [
    { type: 'IssueFileRenamed', data: { ...own, attachmentId: 1, name: '<a>' } },
    'renamed an attached file to &#60;a&#62;',
  ],
  [{ type: 'IssueFileDeleted', data: { ...own, attachmentId: 1, uuid: 'u' } }, 'deleted an attached file'],
  [{ type: 'DiscussionLocked', data: { ...own, reason: 'Spam' } }, 'locked the conversation: Spam'],
  [{ type: 'DiscussionLocked', data: { ...own, reason: '' } }, 'locked the conversation'],
  [{ type: 'DiscussionUnlocked', data: own }, 'unlocked the conversation'],
  [{ type: 'BodyChanged', data: { ...own, body: 'x' } }, 'changed the description'],
  [{ type: 'BodyChanged', data: { ...own, body: '' } }, 'removed the description'],
  [
    {
      type: 'StatusChanged',
      data: { ...own, closed: true, comment: { id: 1, kind: 'close' }, milestone: null },
    },
    'closed this pull request',
  ],
  [
    {
      type: 'StatusChanged',
      data: {
        ...own,
        closed: true,
        comment: { id: 1, kind: 'close' },
        milestone: null,
        branchGone: 'head',
      },
    },
    'closed this pull request: its head branch was deleted',
  ],
  [
    {
      type: 'StatusChanged',
      data: { ...own, closed: false, comment: { id: 1, kind: 'reopen' }, milestone: null },
    },
    'reopened this pull request',
  ],
  [
    {
      type: 'LabelsChanged',
      data: { ...own, labels: [bug], added: [bug], removed: [bug, { id: 2, name: 'b' }] },
    },
    'added the label bug and removed the labels bug and b',
  ],
  [
    { type: 'MilestoneChanged', data: { ...own, from: null, to: one, closed: false } },
    'set the milestone 1.0',
  ],
  [
    { type: 'MilestoneChanged', data: { ...own, from: one, to: null, closed: false } },
    'removed the milestone 1.0',
  ],
  [
    { type: 'MilestoneChanged', data: { ...own, from: one, to: { id: 2, title: '2' }, closed: false } },
    'moved it from milestone 1.0 to 2',
  ],
  [
    { type: 'AssigneesChanged', data: { ...own, assignees: [ann], added: [ann], removed: [] } },
    'assigned ann',
  ],
  [
    { type: 'DeadlineChanged', data: { ...own, from: null, to: '2026-03-04T23:59:59+02:00' } },
    'set the deadline to 2026-03-04',
  ],
  [{ type: 'DeadlineChanged', data: { ...own, from: 'x', to: null } }, 'removed the deadline'],
  [{ type: 'IssueRefChanged', data: { ...own, from: '', to: 'v1' } }, 'set the reference to v1'],
  [{ type: 'IssueRefChanged', data: { ...own, from: 'v1', to: '' } }, 'removed the reference to v1'],
  [
    { type: 'DependencyAdded', data: { ...own, dependency: { repoId: 1, index: 3 } } },
    'made it depend on #3',
  ],
  [
    { type: 'DependencyRemoved', data: { ...own, dependency: { repoId: 2, index: 3 } } },
    'made it no longer depend on #3 of another repository',
  ],
  [
    {
      type: 'TextsErased',
      data: { ...own, commentId: null, comments: [], files: [], by: ann, at: '2026-01-01T00:00:00.000Z' },
    },
    'erased all texts',
  ],
  [
    { type: 'ErasureFinished', data: { ...own, upTo: 1, texts: 2, files: 1 } },
    'destroyed the keys of 2 texts and removed 1 file',
  ],
  [{ type: 'CommentAdded', data: { ...own, commentId: 1, author: ann, body: '<i>' } }, 'commented'],
  [{ type: 'CommentEdited', data: { ...own, commentId: 1, body: 'x' } }, 'edited a comment'],
  [{ type: 'CommentDeleted', data: { ...own, commentId: 1 } }, 'deleted a comment'],
  [
    { type: 'AttachmentAdded', data: { ...own, commentId: 1, attachment: file } },
    'attached the file log.txt',
  ],
  [
    { type: 'AttachmentRenamed', data: { ...own, commentId: 1, attachmentId: 1, name: 'n' } },
    'renamed an attached file to n',
  ],
  [
    { type: 'AttachmentDeleted', data: { ...own, commentId: 1, attachmentId: 1, uuid: 'u' } },
    'deleted an attached file',
  ],
  [
    { type: 'ReviewDrafted', data: { ...ofReview, reviewer: ann, body: 'secret', commit: sha('a') } },
    'began or changed a review',
  ],
  [{ type: 'ReviewCommentDrafted', data: onLine }, 'added a comment to a review that is not submitted'],
  [
    { type: 'ReviewDraftDiscarded', data: { ...ofReview, reviewer: ann, comments: [] } },
    'discarded a review that was not submitted',
  ],
  [
    { type: 'ReviewSubmitted', data: { ...submitted, verdict: 'approved', comments: [] } },
    'approved aaaaaaaaaa',
  ],
  [
    { type: 'ReviewSubmitted', data: { ...submitted, verdict: 'rejected', comments: [8] } },
    'requested changes to aaaaaaaaaa with 1 comment on lines',
  ],
  [
    { type: 'ReviewSubmitted', data: { ...submitted, verdict: 'comment', comments: [8, 9] } },
    'reviewed aaaaaaaaaa with 2 comments on lines',
  ],
  [{ type: 'ReviewCommentAdded', data: onLine }, 'commented on line 3 of a.txt'],
  [
    { type: 'ReviewCommentAdded', data: { ...onLine, side: 'old' } },
    'commented on line 3 of the old version of a.txt',
  ],
  [{ type: 'ReviewCommentAdded', data: { ...onLine, line: 0 } }, 'commented on a.txt'],
  [
    { type: 'ReviewDeleted', data: { ...ofReview, reviewer: ann, comments: [] } },
    'deleted the review of ann',
  ],
  [
    { type: 'ReviewDismissed', data: { ...ofReview, reviewer: ann, dismissed: [7], message: 'old' } },
    'dismissed the review of ann',
  ],
  [
    { type: 'ReviewCommentResolved', data: { ...ofReview, commentId: 9, resolver: ann } },
    'resolved the conversation about a comment on a line',
  ],
  [
    { type: 'ReviewCommentResolved', data: { ...ofReview, commentId: 9, resolver: null } },
    'reopened the conversation about a comment on a line',
  ],
  [
    { type: 'ReviewUndismissed', data: { ...ofReview, reviewer: ann } },
    'took back the dismissal of the review of ann',
  ],
  [
    {
      type: 'ReviewsOutdated',
      data: {
        ...own,
        head: sha('b'),
        stale: [7, 8],
        current: [9],
        dismissed: [7],
        official: [8],
        unofficial: [9],
      },
    },
    'found 2 reviews of an earlier state, dismissed 1 approval, found 1 review of the head bbbbbbbbbb, made 1 review official and made 1 review unofficial',
  ],
  [
    { type: 'ReviewRequested', data: { ...ofReview, reviewer: ann, official: true, superseded: [] } },
    'asked ann for a review',
  ],
  [
    { type: 'ReviewRequestRemoved', data: { ...ofReview, reviewer: ann, restored: null } },
    'no longer asks ann for a review',
  ],
  [
    {
      type: 'TeamReviewRequested',
      data: { ...ofReview, team: { id: 5, name: 'core' }, official: true, members: [1] },
    },
    'asked the team core for a review',
  ],
  [
    { type: 'TeamReviewRequestRemoved', data: { ...ofReview, team: { id: 5, name: 'core' } } },
    'no longer asks the team core for a review',
  ],
  [{ type: 'UsersMentioned', data: { ...own, commentId: null, users: [ann] } }, 'mentioned ann'],
  [
    { type: 'ReactionAdded', data: { ...own, commentId: null, user: ann, reaction: 'heart' } },
    'reacted with heart to this pull request',
  ],
  [
    { type: 'ReactionRemoved', data: { ...own, commentId: 1, user: ann, reaction: '+1' } },
    'took back the reaction +1 of ann to a comment',
  ],
]

const links = { site: '/at', repository: '/at/alice/app' }

t.test('each type of event in a pull request has a sentence', async (t) => {
  for (const [event, words] of cases) {
    t.equal(
      describeEvent(event, links).action.replace(/<\/?(code|b|bdi|a)( href="[^"]*")?>/g, ''),
      words,
      event.type,
    )
  }
  const described = KNOWN_TYPES.filter((type) => isTimelineEvent({ type }))
  t.strictSame(new Set(cases.map(([{ type }]) => type)), new Set(described), 'this test has every type')
  t.notOk(isTimelineEvent({ type: 'toString' }))
})

t.test('a text of users stays plain text, and a refusal has its reasons', async (t) => {
  t.equal(
    describeEvent({ type: 'CommentAdded', data: { ...own, commentId: 1, author: ann, body: '<i>\n' } }, links)
      .text,
    '<i>\n',
  )
  const refused = { ...own, head: sha('a'), reason: 'why', errors: ['one', 'two'] }
  t.equal(describeEvent({ type: 'ScheduledMergeRefused', data: refused }, links).text, 'why\none\ntwo')
})

t.test('people and commits are links', async (t) => {
  const asked = { ...own, reviewId: 1, reviewer: ann, official: false, superseded: [] }
  t.match(describeEvent({ type: 'ReviewRequested', data: asked }, links).action, 'href="/at/ann"')
  const refused = { ...own, head: sha('a'), reason: 'why', errors: [] }
  const { action } = describeEvent({ type: 'ScheduledMergeRefused', data: refused }, links)
  t.match(action, `href="/at/alice/app/commit/${sha('a')}"`)
})
