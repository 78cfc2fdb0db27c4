/** Comments of issues and pull requests on the wire, and the look-up of the comment in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { CommentDocument } from '../../projections/models/comments/comments.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { AttachmentWire, attachmentWire } from '../attachments/attachments.ts'
import { Nullable } from '../nullable.ts'
import { UserWire, usersById } from '../users/users.ts'

export const CommentParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const CommentWire = Type.Object(
  {
    id: Type.Integer(),
    html_url: Type.String(),
    pull_request_url: Type.String(),
    issue_url: Type.String(),
    user: Nullable(UserWire),
    original_author: Type.String(),
    original_author_id: Type.Integer(),
    body: Type.String(),
    assets: Type.Array(AttachmentWire),
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'Comment' },
)

/** Returns the URLs of a comment's web pages. Gitea's URL for the other kind is empty. */
export function discussionUrls(
  { ownerLogin, name }: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  { index, isPull, id }: { index: number; isPull: boolean; id: number },
  publicUrl: string,
) {
  const page = `${publicUrl}/${ownerLogin}/${name}/${isPull ? 'pulls' : 'issues'}/${index}`
  return {
    html_url: `${page}#issuecomment-${id}`,
    pull_request_url: isPull ? page : '',
    issue_url: isPull ? '' : page,
  }
}

/**
 * Returns comments of one repository as Gitea's `Comment`, in the given order. One look-up reads all authors; `user` is
 * null when the account is unknown.
 */
export async function commentWires(
  services: Services,
  repository: RepositoryDocument,
  comments: readonly CommentDocument[],
): Promise<Static<typeof CommentWire>[]> {
  const publicUrl = services.publicUrl()
  const authors = comments.map(({ author }) => author.id)
  const people = await usersById(services, authors)
  return comments.map((comment) => ({
    id: comment.id,
    ...discussionUrls(repository, comment, publicUrl),
    user: people.get(comment.author.id) ?? null,
    original_author: '',
    original_author_id: 0,
    body: comment.body,
    assets: comment.attachments.map((file) => attachmentWire(file, publicUrl)),
    created_at: wholeSeconds(comment.createdAt),
    updated_at: wholeSeconds(comment.updatedAt),
  }))
}

export async function commentWire(
  services: Services,
  repository: RepositoryDocument,
  comment: CommentDocument,
): Promise<Static<typeof CommentWire>> {
  const [wire] = await commentWires(services, repository, [comment])
  if (wire === undefined) throw new Error(`comment ${comment.id} has no wire form`)
  return wire
}

/** Returns the repository's comment with that id. @throws Refused (not found) */
export async function commentFor(services: Services, repoId: number, id: string): Promise<CommentDocument> {
  const number = pathNumber(id)
  const comment = number === undefined ? undefined : await services.views.comments.get(`${number}`)
  if (comment?.repoId !== repoId) throw notFoundIn(services.views.comments, 'comment not found')
  return comment
}
