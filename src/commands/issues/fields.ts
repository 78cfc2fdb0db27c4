/** Parses the fields of issues and pull requests in requests into those of events. */
import { type Static, type TObject, Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { labelsByIds } from '../../api/labels/labels.ts'
import { milestoneOf } from '../../api/milestones/milestones.ts'
import { instantOf, ZERO_TIME } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Opened } from '../../events/catalog/issues.ts'
import type { LabelRef } from '../../events/catalog/labels.ts'
import type { MilestoneRef } from '../../events/catalog/milestones.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { requireListFits } from '../../events/store/append-size.ts'
import { branchNameProblem } from '../../git/refs/names.ts'
import type { LabelDocument } from '../../projections/models/labels/labels.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { TextOf } from '../execution/text-schema.ts'
import type { DiscussionEdit } from './discussion.decider.ts'

/** The labels of a new issue or pull request. */
export const LabelIds = Type.Array(Type.Integer({ 'x-problem': 'must be label ids, not names' }))

/** Fields of new issues and pull requests. */
export const discussionOptions = (services: Services) => ({
  title: Type.Optional(Type.String({ maxLength: 255 })),
  body: Type.Optional(TextOf(services)),
  due_date: Type.Optional(Type.String()),
  deadline: Type.Optional(Type.String()),
  milestone: Type.Optional(Type.Integer()),
  assignee: Type.Optional(Type.String()),
  assignees: Type.Optional(Type.Array(Type.String())),
})

/** Fields of edits of issues and pull requests. */
export const editOptions = (services: Services) => ({
  ...discussionOptions(services),
  unset_due_date: Type.Optional(Type.Boolean()),
  remove_deadline: Type.Optional(Type.Boolean()),
  state: Type.Optional(Type.String()),
})

type DiscussionBody = Static<TObject<ReturnType<typeof editOptions>>> & { labels?: number[] }

/**
 * Returns the text as one trimmed line without control characters: a title becomes the first line of commit messages,
 * and git refuses NUL there. Empty when nothing is left.
 */
function titleOf(text: string | null | undefined): string {
  return (text ?? '').replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

/** Returns the title of a new issue or pull request: `issues.create.7`. @throws Refused (unprocessable) for an empty one */
export function newTitleOf(text: string | null | undefined): string {
  const title = titleOf(text)
  if (title === '') throw new Refused(refuse.unprocessable('title: must not be empty'))
  return title
}

/**
 * Returns the end of the day of an RFC 3339 date-time, in its time zone: a deadline is a day (`deadline.1`).
 * Null for null, for an empty text and for Go's zero time: these remove a deadline (`deadline.2`).
 * @throws Refused (unprocessable) for an invalid date-time
 */
export function deadlineOf(text: string | null): string | null {
  if (text === null || text === '') return null
  const instant = instantOf(text)
  if (instant === instantOf(ZERO_TIME)) return null
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable('due_date: must be a date-time like 2026-12-31T23:59:59+01:00'))
  }
  const [zone = 'Z'] = /(Z|[+-]\d\d:\d\d)$/i.exec(text) ?? []
  return `${text.slice(0, 10)}T23:59:59${zone.toUpperCase()}`
}

/** The branch or tag of an issue; empty for none. */
export const IssueRefOption = Type.Optional(
  Type.String({ maxLength: 255, description: 'Branch or tag that the issue refers to; may be empty' }),
)

/** Returns a valid ref name. The ref need not exist. @throws Refused (unprocessable) */
export function refOf(text: string): string {
  const name = text.trim()
  const problem = name === '' ? undefined : branchNameProblem(name)
  if (problem === undefined) return name
  throw new Refused(refuse.unprocessable(`ref: ${problem}`, [`ref: ${problem}`]))
}

/** Maximum number of labels, or of assignees, in a request. */
const MAX_NAMED = 1000

/**
 * Returns labels of the repository, or of the organization that owns it: `issues.create.5`. Ignores other ids. Of
 * several exclusive labels of a scope the last one wins, as in Gitea.
 */
export async function labelRefs(
  services: Services,
  repository: RepositoryDocument,
  ids: readonly number[],
): Promise<LabelRef[]> {
  requireWithinLimit('labels', ids)
  const labels = await labelsByIds(services, repository, [...new Set(ids)])
  const scopes = labels.map(exclusiveScope)
  const refs = labels
    .filter((_, i) => scopes[i] === undefined || scopes.lastIndexOf(scopes[i]) === i)
    .map(({ id, name }) => ({ id, name }))
  requireListFits('labels', refs)
  return refs
}

/**
 * Returns the scope of an exclusive label: its name before the last slash, in lower case. An issue has at most one
 * label of a scope.
 */
function exclusiveScope({ name, exclusive }: LabelDocument): string | undefined {
  const end = name.lastIndexOf('/')
  return exclusive && end > 0 && end < name.length - 1 ? name.slice(0, end).toLowerCase() : undefined
}

/** Returns the milestone with that id, or null for 0: `issues.create.6`. @throws Refused (not found) */
async function milestoneRef(
  services: Services,
  repository: RepositoryDocument,
  id: number,
): Promise<MilestoneRef | null> {
  if (id === 0) return null
  const milestone = await milestoneOf(services, repository.id, id)
  if (milestone === undefined) throw notFoundIn(services.views.milestones, `milestone: ${id} does not exist`)
  return { id: milestone.id, title: milestone.title }
}

/**
 * Returns the users with these logins, each once: `issues.create.3`.
 *
 * `withoutAccess`: the refusal for a user who may not read the repository; only creation answers 400.
 * @throws Refused: unprocessable for an unknown login, an organization, or a user who may only read; `withoutAccess`
 * for a user without access
 */
async function assigneeRefs(
  services: Services,
  repository: RepositoryDocument,
  { assignee, assignees }: { assignee?: string | null; assignees?: readonly string[] | null },
  withoutAccess: 'invalid' | 'unprocessable',
): Promise<AccountRef[]> {
  const logins = new Set([...(assignee ? [assignee] : []), ...(assignees ?? [])])
  requireWithinLimit('assignees', [...logins])
  const refs = new Map<number, AccountRef>()
  for (const login of logins) {
    const account = await services.views.accounts.findOne({ loginKey: login.toLowerCase() })
    // Organizations get the same answer, since they may be hidden.
    if (account?.kind !== 'user') throw new Refused(refuse.unprocessable(`assignees: no user "${login}"`))
    const access = accessTo(repository, account)
    if (access === 'none') {
      throw new Refused(refuse[withoutAccess](`assignees: "${login}" has no access to the repository`))
    }
    if (!atLeast(access, 'write')) {
      throw new Refused(refuse.unprocessable(`assignees: "${login}" may not write to the repository`))
    }
    refs.set(account.id, { id: account.id, login: account.login })
  }
  requireListFits('assignees', [...refs.values()])
  return [...refs.values()]
}

/** Fields of a new issue or pull request besides its texts. */
export type OpenedFields = Pick<Opened, 'milestone' | 'labels' | 'assignees' | 'deadline'>

/** The fields of an issue whose poster may not set them. */
export const NO_FIELDS: OpenedFields = { labels: [], milestone: null, assignees: [], deadline: null }

/**
 * Returns the fields that a request gives to a new issue or pull request.
 * @throws Refused as `deadlineOf`, `milestoneRef`, `labelRefs` and `assigneeRefs`
 */
export const openedFields = async (
  services: Services,
  repository: RepositoryDocument,
  body: DiscussionBody,
): Promise<OpenedFields> => ({
  deadline: deadlineOf(body.due_date ?? body.deadline ?? null),
  milestone: await milestoneRef(services, repository, body.milestone ?? 0),
  labels: await labelRefs(services, repository, body.labels ?? []),
  assignees: await assigneeRefs(services, repository, body, 'invalid'),
})

/**
 * Returns the changes in a request: `issues.edit.2`, `issues.edit.3`. As in Gitea, an empty text and milestone 0 change
 * nothing in a pull request, and its poster changes the deadline without write access.
 */
export async function discussionEdit(
  services: Services,
  repository: RepositoryDocument,
  body: DiscussionBody,
  { of, isWriter }: { of: 'issue' | 'pull'; isWriter: boolean },
): Promise<DiscussionEdit> {
  const isGiven = <T>(value: T | null | undefined): value is T =>
    of === 'issue' ? value != null : Boolean(value)
  const edit: DiscussionEdit = {}
  const title = titleOf(body.title)
  if (title !== '') edit.title = title
  if (isGiven(body.body)) edit.body = body.body
  if (isWriter || of === 'pull') {
    const deadline = body.due_date ?? body.deadline
    if (body.unset_due_date || body.remove_deadline) edit.deadline = null
    else if (deadline) edit.deadline = deadlineOf(deadline)
  }
  if (!isWriter) return edit
  if (body.labels) edit.labels = await labelRefs(services, repository, body.labels)
  if (isGiven(body.milestone)) edit.milestone = await milestoneRef(services, repository, body.milestone)
  if (body.assignees || body.assignee) {
    edit.assignees = await assigneeRefs(services, repository, body, 'unprocessable')
  }
  return edit
}

function requireWithinLimit(field: string, named: readonly unknown[]): void {
  if (named.length <= MAX_NAMED) return
  throw new Refused(refuse.unprocessable(`${field}: has more than ${MAX_NAMED} entries`))
}
