/** The current state of an open pull request: its mergeability, checks, reviews and schedule. */
import { html } from 'ghtml'
import { accessTo, atLeast } from '../access/access.ts'
import { pulls } from '../commands/execution/aggregates.ts'
import { reasonsAgainst, WORK_IN_PROGRESS } from '../commands/pull-requests/merge-checks.decider.ts'
import { mergeFacts } from '../commands/pull-requests/merge-facts.ts'
import type { ActivePull } from '../commands/pull-requests/pull-request.decider.ts'
import { isWorkInProgress } from '../domain/work-in-progress.ts'
import { pullId } from '../projections/models/pull-requests/pulls.fold.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { ReviewFacts } from '../projections/models/reviews/review-facts.ts'
import {
  type CommitStatusDocument,
  commitChecksId,
} from '../projections/models/statuses/commit-statuses.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'
import type { Services } from '../services/services.ts'
import { scheduledMerge } from './event-sentences.ts'
import { commit, type PageLinks, person } from './format.ts'

/** Maximum number of shown checks, reviews and conflicting files, each. */
const SHOWN = 100
const NONE = '<span class="none">none</span>'

const VERDICTS: Readonly<Partial<Record<ReviewFacts['kind'], string>>> = {
  approved: 'approved',
  rejected: 'requested changes to',
}

function list(items: readonly string[]): string {
  if (items.length === 0) return NONE
  const more = items.length > SHOWN ? [`and ${items.length - SHOWN} more`] : []
  return `<ul>${[...items.slice(0, SHOWN), ...more].map((item) => `<li>${item}</li>`).join('')}</ul>`
}

/**
 * Returns the reasons against a merge that the user may see, without conflicts (`merge.2`). Users without permission to
 * merge see only reasons in the pull request itself: protection rules name people and teams.
 */
async function reasonsFor(
  services: Services,
  pull: ActivePull,
  repository: RepositoryDocument,
  requester: AccountDocument | null,
): Promise<readonly string[]> {
  const own = isWorkInProgress(pull.title) ? [WORK_IN_PROGRESS] : []
  if (requester === null || !atLeast(accessTo(repository, requester), 'write')) return own
  const style = repository.defaultMergeStyle
  const facts = await mergeFacts(services, pull, repository, requester, style)
  if (!facts.mayMerge) return own
  const mergeability = { ...pull.mergeability, mergeable: true }
  return reasonsAgainst({ ...pull, mergeability }, { style, force: false, scheduling: false }, facts)
}

function check({ context, state, targetUrl, description }: CommitStatusDocument): string {
  const name = /^https?:/.test(targetUrl)
    ? html`<a href="${targetUrl}" rel="nofollow"><bdi>${context}</bdi></a>`
    : html`<bdi>${context}</bdi>`
  return html`!${name}: ${state}!${description === '' ? '' : html` <span class="aside"><bdi>${description}</bdi></span>`}`
}

/** The section's markup; empty when the pull request is not open. */
export async function mergeStatusSection(
  services: Services,
  repository: RepositoryDocument,
  index: number,
  requester: AccountDocument | null,
  links: PageLinks,
): Promise<string> {
  const { views } = services
  const pull = await pulls.load(services, { repoId: repository.id, index })
  if (pull.status !== 'open') return ''
  const [document, checks, reasons] = await Promise.all([
    views.pulls.get(pullId(repository.id, index)),
    views.commitChecks.get(commitChecksId(repository.id, pull.head.sha)),
    reasonsFor(services, pull, repository, requester),
  ])
  const ids = (checks?.latest ?? []).map(({ id }) => `${id}`)
  const statuses = await views.commitStatuses.getMany(ids.slice(0, SHOWN))
  const conflicts = (document?.conflicts ?? []).map((file) => html`<code><bdi>${file}</bdi></code>`)
  const against = [
    ...reasons.map((reason) => html`<bdi>${reason}</bdi>`),
    ...(document?.mergeable === false
      ? [`it has conflicts${conflicts.length > 0 ? ` in ${list(conflicts)}` : ''}`]
      : []),
  ]
  const reviews = pull.reviews.flatMap(({ kind, reviewer, commit: of, stale, dismissed }) => {
    const verdict = dismissed ? undefined : VERDICTS[kind]
    return verdict === undefined
      ? []
      : [
          `${person(links, reviewer.login)} ${verdict} ${commit(links, of)}${stale ? ', which has changed since' : ''}`,
        ]
  })
  const { schedule } = pull
  const facts = [
    ['Can be merged', against.length === 0 ? 'yes' : `no, because ${list(against)}`],
    ['Checks', list(statuses.map(check))],
    ['Reviews', list(reviews)],
    [
      'Scheduled',
      schedule === null ? NONE : `${person(links, schedule.by.login)} ${scheduledMerge(schedule, links)}`,
    ],
  ] as const
  return html`<h2>Now</h2>
<dl class="facts present">
!${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>!${value}</dd></div>`)}</dl>`
}
