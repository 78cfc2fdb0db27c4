/** Decides changes of the files of issues and pull requests. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { IssueAsset, IssueFileEvent } from '../../events/catalog/attachments.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import type { Decision } from '../execution/decider.ts'

/** Maximum number of files of an issue. Its comments have their own. */
const MAX_FILES = 100

const noSuchFile = refuse.notFound('attachment not found')

const fileOf = ({ assets = [] }: Discussion, id: number) => assets.find((file) => file.id === id)

export function decideAddIssueFile(discussion: Discussion, attachment: IssueAsset): Decision<IssueFileEvent> {
  const { repoId, index, assets = [] } = discussion
  if (assets.length >= MAX_FILES) {
    return refuse.unprocessable(`an issue can have at most ${MAX_FILES} attachments`)
  }
  return [{ type: 'IssueFileAdded', data: { repoId, index, attachment } }]
}

export function decideRenameIssueFile(
  discussion: Discussion,
  attachmentId: number,
  name: string,
): Decision<IssueFileEvent> {
  const file = fileOf(discussion, attachmentId)
  if (file === undefined) return noSuchFile
  if (name === '' || name === file.name) return []
  const { repoId, index } = discussion
  return [{ type: 'IssueFileRenamed', data: { repoId, index, attachmentId, name } }]
}

export function decideDeleteIssueFile(
  discussion: Discussion,
  attachmentId: number,
): Decision<IssueFileEvent> {
  const file = fileOf(discussion, attachmentId)
  if (file === undefined) return noSuchFile
  const { repoId, index } = discussion
  return [{ type: 'IssueFileDeleted', data: { repoId, index, attachmentId, uuid: file.uuid } }]
}
