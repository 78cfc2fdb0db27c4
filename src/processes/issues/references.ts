/**
 * The process that follows references to issues. It records for the timelines which issues a text or commit names. A
 * keyword before a reference (`fixes #3`) in the title, body or commits of a pull request closes the issue when the
 * pull request is merged into the default branch, and so does a commit that is pushed there. It acts for the user who
 * merged or pushed.
 */
import { pulls } from '../../commands/execution/aggregates.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import {
  recordedReferences,
  recordReferences,
  referencesOf,
  type TextPlace,
} from '../../commands/issues/record-references.ts'
import {
  changeReferencedIssues,
  mayChangeStatus,
  type ReferencedIssue,
  type RequestedStatus,
  referencedIssues,
} from '../../commands/issues/referenced-issues.ts'
import { unlessDeleted } from '../../commands/pull-requests/branches/move-heads.ts'
import {
  mayHaveReferences,
  plainProse,
  type Reference,
  referencesIn,
} from '../../domain/markup/references.ts'
import { proseInThread } from '../../domain/markup/renderer.ts'
import type { RefCause, RefUpdate } from '../../events/catalog/branches.ts'
import type { StatusCause } from '../../events/catalog/issues.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type { DomainEvent, Envelope, Recorded } from '../../events/domain-events.ts'
import type { RecordedOf } from '../../events/handlers.ts'
import { cutText } from '../../events/store/append-size.ts'
import { isPullStream } from '../../events/streams.ts'
import { newestCommits } from '../../git/commits/commit-range.ts'
import { fromCommits } from '../../git/commits/commits.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { mergedCommitId } from '../../projections/models/pull-requests/merged-commits.fold.ts'
import { branchKey } from '../../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { isHistorical, type ProcessManager, processManager } from '../process-manager.ts'

/** Maximum number of commits read per push, pull request or first push of a branch, as in Gitea. */
const MAX_COMMITS = 200
const MAX_FIRST_COMMITS = 10
/** Length of the part of a commit message that is read, in characters. */
const MAX_MESSAGE = 8 * 1024
const MAX_SUBJECT = 255
/** Maximum number of references in the commits of a push or a pull request. Each costs a look-up. */
const MAX_REFERENCES = 200
/** Maximum number of issues that one push or merge changes. */
const MAX_CHANGED = 50
/** Maximum number of branches of a push whose commits are read. */
const MAX_BRANCHES = 20

/**
 * Causes that bring new commits. Forks and branch renames bring none, and moves found by the recovery have no actor.
 */
const PUSHES: ReadonlySet<RefCause> = new Set<RefCause>(['push', 'update', 'merge'])

interface CommitReferences {
  commit: string
  subject: string
  references: Reference[]
}

/** References of a text, with their source. */
interface SourcedReferences {
  references: readonly Reference[]
  cause: StatusCause
}

export function references(services: Services): ProcessManager {
  const { views } = services

  /** Returns the references in commit messages, oldest commit first. */
  async function commitReferences(repoId: number, commits: readonly string[]): Promise<CommitReferences[]> {
    const site = services.publicUrl()
    const found = await fromCommits(gitDirOf(services, repoId), commits, ({ sha, message }) => ({
      commit: sha,
      subject: cutText(message.slice(0, MAX_SUBJECT).split('\n', 1)[0] ?? '', MAX_SUBJECT),
      references: mayHaveReferences(message)
        ? referencesIn(plainProse(message.slice(0, MAX_MESSAGE), site))
        : [],
    }))
    let left = MAX_REFERENCES
    return commits.toReversed().flatMap((commit) => {
      const one = found.get(commit)
      if (one === undefined) return []
      const references = one.references.slice(0, left)
      left -= references.length
      return [{ ...one, references }]
    })
  }

  /**
   * Executes the keywords as the user. The last keyword for an issue wins. In other repositories, the author of a pull
   * request also needs the permission: the texts and commits are the author's, not the merger's.
   */
  async function followKeywords(
    context: CommandContext,
    repoId: number,
    by: AccountRef,
    sources: readonly SourcedReferences[],
    posterId: number = by.id,
  ): Promise<void> {
    const [author, poster] = await Promise.all([by.id, posterId].map((id) => views.accounts.get(`${id}`)))
    if (author === undefined) return
    const mayChange = (named: ReferencedIssue) =>
      mayChangeStatus(named, author) &&
      (named.issue.repoId === repoId || (poster !== undefined && mayChangeStatus(named, poster)))
    const wanted = new Map<string, RequestedStatus>()
    for (const { references, cause } of sources) {
      const keywords = references.filter(({ action }) => action !== 'none')
      if (keywords.length === 0) continue
      for (const named of await referencedIssues(services, repoId, author, keywords)) {
        const id = issueId(named.issue.repoId, named.issue.index)
        const isOneMore = wanted.size < MAX_CHANGED || wanted.has(id)
        if (isOneMore && mayChange(named)) wanted.set(id, { named, cause })
      }
    }
    await changeReferencedIssues(services, { ...context, actor: by }, [...wanted.values()])
  }

  /** Uses the texts as they were at the merge. */
  async function onMerge(
    context: CommandContext,
    { data, revision }: RecordedOf<'PullRequestMerged'>,
  ): Promise<void> {
    const { repoId, index, mergedBy, commit, head } = data
    const [repository, pull] = await Promise.all([
      views.repositories.get(`${repoId}`),
      pulls.loadAt(services, data, revision),
    ])
    if (pull.status === 'none' || pull.base.branch !== repository?.defaultBranch) return
    const range = await newestCommits(
      gitDirOf(services, repoId),
      data.mergeBase ?? pull.mergeBase,
      head,
      MAX_COMMITS,
    )
    const commits = await commitReferences(repoId, [...new Set([commit, ...range])])
    const body = await proseIn(mergedBy.id, pull.body)
    const texts = [...commits, { references: [...referencesIn(body), ...titleReferences(pull.title)] }]
    const sources = texts.map(({ references }) => ({ references, cause: { repoId, pull: index, commit } }))
    await followKeywords(context, repoId, mergedBy, sources, pull.poster.id)
  }

  /** Records the references in pushed commits, and follows their keywords when they reach the default branch. */
  async function onRefs(context: CommandContext, { data }: RecordedOf<'RefsUpdated'>): Promise<void> {
    const { repoId, cause: why } = data
    const { actor } = context
    const repository = await views.repositories.get(`${repoId}`)
    const author = actor === null ? undefined : await views.accounts.get(`${actor.id}`)
    if (repository === undefined || actor === null || author === undefined) return
    const main = `refs/heads/${repository.defaultBranch}`
    // A failure for one branch must not stop the others.
    await forEachSettled(branchesFirst(data.refs, main).slice(0, MAX_BRANCHES), async ({ ref, from, to }) => {
      if (to === null) return
      const commits = await commitReferences(repoId, await pushedCommits(repository, ref === main, from, to))
      const merged = why === 'merge' ? await mergedPull(repoId, ref, to) : undefined
      const sources = commits.map(({ commit, references }) => ({
        references,
        cause: { repoId, pull: null, commit },
      }))
      await forEachSettled(
        [
          () => forEachSettled(commits, (one) => recordCommit(context, repoId, author, one, merged)),
          // A merge is handled with its pull request.
          async () =>
            ref === main && why !== 'merge' && (await followKeywords(context, repoId, actor, sources)),
        ],
        async (step) => void (await step()),
      )
    })
  }

  /** Returns the pushed commits; for a new branch, those that the default branch lacks. */
  async function pushedCommits(
    { id, defaultBranch }: RepositoryDocument,
    isMain: boolean,
    from: string | null,
    to: string,
  ): Promise<string[]> {
    const main = isMain ? undefined : (await views.branches.get(branchId(id, defaultBranch)))?.commit.sha
    const before = from ?? main ?? null
    const limit = before === null ? MAX_FIRST_COMMITS : MAX_COMMITS
    return newestCommits(gitDirOf(services, id), before, to, limit)
  }

  /** Returns the number of the pull request whose merge moved the branch. The merge may not be recorded yet. */
  async function mergedPull(repoId: number, ref: string, to: string): Promise<number | undefined> {
    const merged = await views.mergedCommits.get(mergedCommitId(repoId, to))
    if (merged !== undefined) return merged.index
    const baseKey = branchKey(repoId, ref.slice('refs/heads/'.length))
    return (await views.pulls.findOne({ baseKey, status: 'open', merging: true }))?.index
  }

  /** `merged` is the number of the pull request that brought the commit, whose timeline shows the merge already. */
  async function recordCommit(
    context: CommandContext,
    repoId: number,
    author: AccountDocument,
    { commit: sha, subject, references: all }: CommitReferences,
    merged: number | undefined,
  ): Promise<void> {
    const references = all.filter(({ place, index }) => place !== null || index !== merged)
    if (references.length === 0) return
    const place = { repoId, source: { sha, subject } }
    // The same commits arrive again on other branches.
    if ((await recordedReferences(services, place)) !== undefined) return
    const named = await referencedIssues(services, repoId, author, references)
    await recordReferences(services, context, place, {
      revision: null,
      body: referencesOf(place, named, author, false),
    })
  }

  /** Records the references of the texts in an event. `body` is Markdown; an absent text is unchanged. */
  async function recordTexts(
    context: CommandContext,
    { data, stream, revision }: Envelope & { data: IssueRef },
    commentId: number | null,
    { title, body }: { title?: string; body?: string },
  ): Promise<void> {
    const author = context.actor === null ? undefined : await views.accounts.get(`${context.actor.id}`)
    if (author === undefined) return
    const place = placeOf(stream, data, commentId)
    const resolved = async (found: Reference[], inTitle: boolean) =>
      referencesOf(place, await referencedIssues(services, place.repoId, author, found), author, inTitle)
    await recordReferences(services, context, place, {
      revision,
      ...(title !== undefined && { title: await resolved(titleReferences(title), true) }),
      ...(body !== undefined && {
        body: await resolved(referencesIn(await proseIn(author.id, body)), false),
      }),
    })
  }

  const titleReferences = (title: string) => referencesIn(plainProse(title, services.publicUrl()))

  const proseIn = async (clientId: number, body: string) =>
    mayHaveReferences(body)
      ? await proseInThread(`${clientId}`, { prose: body, site: services.publicUrl() })
      : ''

  /** The title and the body change separately: other users may edit them at the same time. */
  const onDiscussion = (
    context: CommandContext,
    event: Envelope & { data: IssueRef & { title?: string; body?: string } },
  ) => recordTexts(context, event, null, event.data)

  const onText = (
    context: CommandContext,
    event: Envelope & { data: IssueRef & { body: string } },
    commentId: number,
  ) => recordTexts(context, event, commentId, { body: event.data.body })

  const onDeleted = (
    context: CommandContext,
    { data, stream, revision }: Envelope & { data: IssueRef },
    commentIds: readonly (number | null)[],
  ) =>
    forEachSettled(commentIds, (commentId) =>
      recordReferences(services, context, placeOf(stream, data, commentId), {
        revision,
        title: [],
        body: [],
      }),
    )

  const manager = processManager('references', {
    PullRequestMerged: onMerge,
    RefsUpdated: onRefs,
    IssueOpened: onDiscussion,
    PullRequestOpened: onDiscussion,
    TitleChanged: onDiscussion,
    BodyChanged: onDiscussion,
    CommentAdded: (context, event) => onText(context, event, event.data.commentId),
    CommentEdited: (context, event) => onText(context, event, event.data.commentId),
    ReviewSubmitted: (context, event) => onText(context, event, event.data.reviewId),
    ReviewCommentAdded: (context, event) => onText(context, event, event.data.commentId),
    CommentDeleted: (context, event) => onDeleted(context, event, [event.data.commentId]),
    CommentsDeleted: (context, event) => onDeleted(context, event, event.data.comments),
    IssueDeleted: (context, event) => onDeleted(context, event, [null]),
    ReviewDeleted: (context, event) =>
      onDeleted(context, event, [event.data.reviewId, ...event.data.comments]),
    TextsErased(context, event) {
      const { commentId, comments } = event.data
      return onDeleted(context, event, commentId === null ? [null, ...comments] : comments)
    },
  })
  return {
    ...manager,
    concerns,
    async react(event, context) {
      if (!isHistorical(services, context, event)) await manager.react(event, context).catch(unlessDeleted)
    },
  }
}

/** Most texts have no references. Edited texts may have had some before. */
function concerns(event: Recorded<DomainEvent>): boolean {
  switch (event.type) {
    case 'RefsUpdated':
      return PUSHES.has(event.data.cause)
    case 'TitleChanged':
      return mayHaveReferences(event.data.title) || mayHaveReferences(event.data.oldTitle)
    case 'IssueOpened':
    case 'PullRequestOpened':
      return mayHaveReferences(event.data.title) || mayHaveReferences(event.data.body)
    case 'CommentAdded':
    case 'ReviewSubmitted':
    case 'ReviewCommentAdded':
      return mayHaveReferences(event.data.body)
    default:
      return true
  }
}

const placeOf = (stream: string, { repoId, index }: IssueRef, commentId: number | null): TextPlace => ({
  repoId,
  source: { index, isPull: isPullStream(stream), commentId },
})

/** Returns the branches among the refs, the default branch first. */
const branchesFirst = (refs: readonly RefUpdate[], main: string) => [
  ...refs.filter(({ ref }) => ref === main),
  ...refs.filter(({ ref }) => ref !== main && ref.startsWith('refs/heads/')),
]
