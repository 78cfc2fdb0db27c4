/** Comments of issues and pull requests on the wire, and the one in a path. */

import { type Static, Type } from 'typebox'
import { pathNumber } from '../http/path-number.ts'
import type { CommentDocument } from '../projections/comments.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { AttachmentWire, attachmentWire } from './attachments.ts'
import { Nullable } from './nullable.ts'
import { UserWire, userWire } from './users.ts'

export const CommentParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const CommentWire = Type.Object({
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
})

/** Where people see what happened in a discussion: of the two pages that Gitea names, the other one is empty. */
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

/** The document as Gitea's `Comment`. */
export function commentWire(
  comment: CommentDocument,
  repository: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  author: Static<typeof UserWire> | null,
  publicUrl: string,
): Static<typeof CommentWire> {
  return {
    id: comment.id,
    ...discussionUrls(repository, comment, publicUrl),
    user: author,
    original_author: '',
    original_author_id: 0,
    body: comment.body,
    assets: comment.attachments.map((file) => attachmentWire(file, publicUrl)),
    created_at: comment.createdAt,
    updated_at: comment.updatedAt,
  }
}

/** Comments of one repository in their order; their authors are read at once. */
export async function commentWires(
  services: Services,
  repository: RepositoryDocument,
  comments: readonly CommentDocument[],
): Promise<Static<typeof CommentWire>[]> {
  const publicUrl = services.publicUrl()
  const ids = new Set(comments.map(({ author }) => `${author.id}`))
  const accounts = await services.views.accounts.getMany([...ids])
  const people = new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
  return comments.map((comment) =>
    commentWire(comment, repository, people.get(comment.author.id) ?? null, publicUrl),
  )
}

/** The repository's comment with the id in a path, or 404. */
export async function commentFor(services: Services, repoId: number, id: string): Promise<CommentDocument> {
  const number = pathNumber(id)
  const comment = number === undefined ? undefined : await services.views.comments.get(`${number}`)
  if (comment?.repoId !== repoId) throw new Refused(refuse.notFound('comment not found'))
  return comment
}
