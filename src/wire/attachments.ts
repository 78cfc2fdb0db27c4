/** Attachments of comments on the wire, and the look-up of the attachment in a path. */
import { type Static, Type } from 'typebox'
import { pathNumber } from '../http/path-number.ts'
import type { CommentDocument } from '../projections/comments.ts'
import type { Discussion, IssueFile } from '../projections/discussion.ts'
import { notFoundIn } from '../projections/view.ts'
import type { Refused } from '../refusal.ts'
import type { Services } from '../services.ts'
import { wholeSeconds } from '../times.ts'

export type AttachmentOfDocument = CommentDocument['attachments'][number]

export const AttachmentParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  id: Type.String({ description: 'id of the comment' }),
  attachment_id: Type.String(),
})

export const IssueFileParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  index: Type.String(),
  attachment_id: Type.String(),
})

export const noSuchFile = ({ views }: Pick<Services, 'views'>): Refused =>
  notFoundIn(views.comments, 'attachment not found')

/** The comment's file with that id. @throws Refused (not found), also when another comment has the file */
export function attachmentOf(
  services: Pick<Services, 'views'>,
  comment: CommentDocument,
  id: string,
): AttachmentOfDocument {
  const number = pathNumber(id)
  const file = comment.attachments.find((one) => one.id === number)
  if (file === undefined) throw noSuchFile(services)
  return file
}

/** The issue's own file with that id. @throws Refused (not found), also when a comment has the file */
export function issueFileOf(
  services: Pick<Services, 'views'>,
  issue: Pick<Discussion, 'assets'>,
  id: string,
): IssueFile {
  const number = pathNumber(id)
  const file = issue.assets?.find((one) => one.id === number)
  if (file === undefined) throw notFoundIn(services.views.issues, 'attachment not found')
  return file
}

export const AttachmentWire = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  size: Type.Integer(),
  download_count: Type.Integer(),
  created_at: Type.String(),
  uuid: Type.String(),
  browser_download_url: Type.String(),
})

/** A file of a comment, an issue or a release. */
type ShownFile = Pick<AttachmentOfDocument, 'id' | 'name' | 'size' | 'uuid' | 'createdAt'>

/** A file as Gitea's `Attachment`. Downloads are not counted. */
export function attachmentWire(file: ShownFile, publicUrl: string): Static<typeof AttachmentWire> {
  return {
    id: file.id,
    name: file.name,
    size: file.size,
    download_count: 0,
    created_at: wholeSeconds(file.createdAt),
    uuid: file.uuid,
    browser_download_url: `${publicUrl}/attachments/${file.uuid}`,
  }
}
