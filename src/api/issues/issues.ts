/** Issues on the wire, and the look-up of the issue in a path. Pull requests are issues too, as in Gitea. */
import { type Static, Type } from 'typebox'
import { type Access, atLeast } from '../../access/access.ts'
import {
  onRepository,
  type RepositoryAccess,
  type RepositoryRequest,
} from '../../access/repository-access.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { isWorkInProgress } from '../../domain/work-in-progress.ts'
import { coded, Refused, refuse } from '../../errors/refusal.ts'
import type { Permission } from '../../events/catalog/organizations.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { AnswerServices, Services } from '../../services/services.ts'
import { AttachmentWire, attachmentWire } from '../attachments/attachments.ts'
import { cachedRow } from '../cached-rows.ts'
import { type LabelWire, labelsByIds, labelWire } from '../labels/labels.ts'
import { Nullable } from '../nullable.ts'
import {
  currentDocuments,
  type RelatedDocuments,
  readableRepositories,
  relatedDocuments,
} from '../related-documents.ts'
import { DISCUSSION_WIRE, discussionWire } from './discussions.ts'

export const IssueParams = Type.Object({ owner: Type.String(), repo: Type.String(), index: Type.String() })

export const IssueWire = Type.Object(
  {
    ...DISCUSSION_WIRE,
    url: Type.String(),
    html_url: Type.String(),
    original_author: Type.String(),
    original_author_id: Type.Integer(),
    ref: Type.String(),
    assets: Type.Array(AttachmentWire),
    /** Null if it is not a pull request. */
    pull_request: Nullable(
      Type.Object({
        merged: Type.Boolean(),
        merged_at: Nullable(Type.String()),
        draft: Type.Boolean(),
        html_url: Type.String(),
      }),
    ),
    repository: Type.Object({
      id: Type.Integer(),
      name: Type.String(),
      owner: Type.String(),
      full_name: Type.String(),
    }),
  },
  { title: 'Issue' },
)

/**
 * Returns an issue or a pull request as Gitea's `Issue`.
 * @throws Error when its repository is not among the related documents
 */
function issueWire(issue: IssueDocument, related: RelatedDocuments): Static<typeof IssueWire> {
  const { publicUrl } = related
  const fullName = related.repositoryNames.get(issue.repoId) ?? ''
  const [owner, name] = fullName.split('/')
  if (owner === undefined || name === undefined) {
    throw new Error(
      `the repository of issue ${issueId(issue.repoId, issue.index)} is not among the related ones`,
    )
  }
  const page = `${publicUrl}/${fullName}/${issue.isPull ? 'pulls' : 'issues'}/${issue.index}`
  // V8 is about thirty times slower at a literal that begins with a spread and then adds fields.
  return Object.assign(discussionWire(issue, related), {
    url: `${publicUrl}/api/v1/repos/${fullName}/issues/${issue.index}`,
    html_url: page,
    original_author: '',
    original_author_id: 0,
    ref: issue.ref ?? '',
    assets: (issue.assets ?? []).map((file) => attachmentWire(file, publicUrl)),
    pull_request: issue.isPull
      ? {
          merged: issue.mergedAt !== null,
          merged_at: wholeSeconds(issue.mergedAt),
          draft: isWorkInProgress(issue.title),
          html_url: page,
        }
      : null,
    repository: { id: issue.repoId, name, owner, full_name: fullName },
  })
}

const issueRow = cachedRow(issueWire)

/** Returns the issue or pull request with that number. @throws Refused (not found) */
export async function issueFor(
  services: AnswerServices,
  repoId: number,
  index: string,
): Promise<IssueDocument> {
  const number = pathNumber(index)
  const issue = number === undefined ? undefined : await services.views.issues.get(issueId(repoId, number))
  if (issue === undefined) throw notFoundIn(services.views.issues, 'issue not found')
  return issue
}

/**
 * Returns issues of any repositories, in the given order. Leaves out issues of repositories that the requester may not
 * read. `source`: by default the current documents.
 */
export async function issueWires(
  services: AnswerServices,
  issues: readonly IssueDocument[],
  requester: AccountDocument | null,
  source = currentDocuments(services),
): Promise<Static<typeof IssueWire>[]> {
  const repoIds = issues.map(({ repoId }) => repoId)
  const repositories = await readableRepositories(source, repoIds, requester)
  const context = { repositories, requester, publicUrl: services.publicUrl() }
  const related = await relatedDocuments(source, issues, context)
  return issues.flatMap((issue) =>
    related.repositoryNames.get(issue.repoId) === undefined ? [] : [issueRow(issue, related)],
  )
}

/** Returns one issue. @throws Refused (not found) when it is unknown, or the requester may not read it */
export async function issueNow(
  services: AnswerServices,
  { repoId, index }: IssueRef,
  requester: AccountDocument | null,
): Promise<Static<typeof IssueWire>> {
  return issueWireNow(services, await issueFor(services, repoId, `${index}`), requester)
}

/** Returns one issue with its current related documents. @throws Refused (not found) when the requester may not read it */
export async function issueWireNow(
  services: AnswerServices,
  issue: IssueDocument,
  requester: AccountDocument | null,
): Promise<Static<typeof IssueWire>> {
  const [wire] = await issueWires(services, [issue], requester)
  if (wire === undefined) throw notFoundIn(services.views.repositories, 'issue not found')
  return wire
}

/**
 * Returns the labels of the issue in the path, without deleted ones and those of a former owner.
 * @throws Refused (not found) when the issue is unknown
 */
export async function labelsOfIssue(
  services: Services,
  repository: RepositoryDocument,
  index: string,
): Promise<Static<typeof LabelWire>[]> {
  const { labelIds } = await issueFor(services, repository.id, index)
  const labels = await labelsByIds(services, repository, labelIds)
  return labels.map((label) => labelWire(label, repository, services.publicUrl()))
}

/** Refuses comments and reactions on a locked conversation. @throws Refused (forbidden) unless the requester is a writer */
export function requireUnlocked({ locked }: Pick<IssueDocument, 'locked'>, access: Access): void {
  if (locked !== true || atLeast(access, 'write')) return
  throw new Refused(
    coded(
      'conversation_locked',
      refuse.forbidden('the conversation is locked: only writers may comment and react'),
    ),
  )
}

/**
 * Returns the issue or pull request in the request's path, with its repository. The requester must have the permission.
 * @throws Refused as `onRepository` does; not found when the issue is unknown
 */
export async function onIssue(
  services: AnswerServices,
  request: RepositoryRequest & { params: { index: string } },
  needed: Permission,
): Promise<RepositoryAccess & { issue: IssueDocument }> {
  const found = await onRepository(services, request, needed)
  return { ...found, issue: await issueFor(services, found.repository.id, request.params.index) }
}
