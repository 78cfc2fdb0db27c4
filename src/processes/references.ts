/**
 * The process that follows references to issues. A keyword before one (`fixes #3`) closes the issue when a pull request is
 * merged into the default branch that has it in its title, its body or a commit, and when such a commit is pushed there.
 * It acts for the user who merged or pushed.
 */
import { eachOne } from '../commands/each-one.ts'
import type { CommandContext } from '../commands/execute.ts'
import {
  changeNamedIssue,
  mayChangeStatus,
  type NamedIssue,
  namedIssues,
} from '../commands/issues/named-issues.ts'
import { unlessDeleted } from '../commands/pull-requests/move-heads.ts'
import type { AccountRef, RefUpdate, StatusCause } from '../events/domain-events.ts'
import type { RecordedOf } from '../events/handlers.ts'
import type { RefCause } from '../events/ref-causes.ts'
import { newestCommits } from '../git/commit-range.ts'
import { fromCommits } from '../git/commits.ts'
import { mayHaveReferences, plainProse, type Reference, referencesIn } from '../markup/references.ts'
import { proseInThread } from '../markup/renderer.ts'
import { issueId } from '../projections/issue-selection.ts'
import { pullId } from '../projections/pulls.ts'
import { gitDirOf, type Services } from '../services.ts'
import { isOfThePast, type ProcessManager, processManager } from './process-manager.ts'

/** Of a push or a pull request, so many of the newest commits count; of the first push of a branch, as in Gitea, fewer. */
const MAX_COMMITS = 200
const MAX_FIRST_COMMITS = 10
/** Of a message, so many of the first characters count. */
const MAX_MESSAGE = 8 * 1024
/** One push or merge changes so many issues at most. */
const MAX_CHANGED = 50

/**
 * What somebody has pushed. A merge counts with its pull request. What a fork or another name of a branch brings is not new,
 * and a move that the recovery has found is nobody's.
 */
const PUSHES: ReadonlySet<RefCause> = new Set<RefCause>(['push', 'update'])

/** A text's references, and where they come from. */
interface Said {
  references: readonly Reference[]
  cause: StatusCause
}

export function references(services: Services): ProcessManager {
  const { views } = services

  /** What commits say, the oldest first. */
  async function saidIn(
    repoId: number,
    commits: readonly string[],
  ): Promise<{ commit: string; references: Reference[] }[]> {
    const site = services.publicUrl()
    const found = await fromCommits(gitDirOf(services, repoId), commits, ({ message }) =>
      mayHaveReferences(message) ? referencesIn(plainProse(message.slice(0, MAX_MESSAGE), site)) : [],
    )
    return commits.toReversed().map((commit) => ({ commit, references: found.get(commit) ?? [] }))
  }

  /** Does what the keywords ask for, as the user. Of several ones for an issue the last counts. */
  async function follow(
    context: CommandContext,
    repoId: number,
    by: AccountRef,
    said: readonly Said[],
  ): Promise<void> {
    const author = await views.accounts.get(`${by.id}`)
    if (author === undefined) return
    const wanted = new Map<string, { named: NamedIssue; cause: StatusCause }>()
    for (const { references, cause } of said) {
      const keywords = references.filter(({ action }) => action !== 'none')
      if (keywords.length === 0) continue
      for (const named of await namedIssues(services, repoId, author, keywords)) {
        const id = issueId(named.issue.repoId, named.issue.index)
        const isOneMore = wanted.size < MAX_CHANGED || wanted.has(id)
        if (isOneMore && mayChangeStatus(named, author)) wanted.set(id, { named, cause })
      }
    }
    const own = { ...context, actor: by }
    await eachOne(wanted.values(), ({ named, cause }) => changeNamedIssue(services, own, named, cause))
  }

  async function onMerge(context: CommandContext, { data }: RecordedOf<'PullRequestMerged'>): Promise<void> {
    const { repoId, index, mergedBy, commit, head } = data
    const [repository, pull] = await Promise.all([
      views.repositories.get(`${repoId}`),
      views.pulls.get(pullId(repoId, index)),
    ])
    if (repository === undefined || pull?.base.branch !== repository.defaultBranch) return
    const site = services.publicUrl()
    const range = await newestCommits(
      gitDirOf(services, repoId),
      data.mergeBase ?? pull.mergeBase,
      head,
      MAX_COMMITS,
    )
    const commits = await saidIn(repoId, [...new Set([commit, ...range])])
    const body = mayHaveReferences(pull.body)
      ? await proseInThread(`${mergedBy.id}`, { prose: pull.body, site })
      : ''
    const texts = [
      ...commits,
      { references: [...referencesIn(body), ...referencesIn(plainProse(pull.title, site))] },
    ]
    const said = texts.map(({ references }) => ({ references, cause: { repoId, pull: index, commit } }))
    await follow(context, repoId, mergedBy, said)
  }

  async function onRefs(context: CommandContext, { data }: RecordedOf<'RefsUpdated'>): Promise<void> {
    const { repoId } = data
    const repository = await views.repositories.get(`${repoId}`)
    const update = data.refs.find(({ ref }) => ref === `refs/heads/${repository?.defaultBranch}`)
    if (context.actor === null || update === undefined || update.to === null) return
    const commits = await saidIn(repoId, await pushedCommits(repoId, update.to, update))
    const said = commits.map(({ commit, references }) => ({
      references,
      cause: { repoId, pull: null, commit },
    }))
    await follow(context, repoId, context.actor, said)
  }

  const pushedCommits = (repoId: number, to: string, { from }: RefUpdate) =>
    newestCommits(gitDirOf(services, repoId), from, to, from === null ? MAX_FIRST_COMMITS : MAX_COMMITS)

  const manager = processManager('references', { PullRequestMerged: onMerge, RefsUpdated: onRefs })
  return {
    ...manager,
    concerns: (event) => event.type !== 'RefsUpdated' || PUSHES.has(event.data.cause),
    async react(event, context) {
      if (!isOfThePast(services, context, event)) await manager.react(event, context).catch(unlessDeleted)
    },
  }
}
