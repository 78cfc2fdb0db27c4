/** Files of issues, comments and releases on the wire, and the look-up of the file in a path. */
import type { FastifyRequest } from 'fastify'
import { type Static, type TObject, Type } from 'typebox'
import type { ScopeCategory } from '../../auth/token-scopes.ts'
import { wholeSeconds } from '../../domain/times.ts'
import type { Refused } from '../../errors/refusal.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { IssueFile } from '../../projections/models/issues/discussion.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { checkOf } from '../../storage/checked-json.ts'

/** A file of an issue, a comment or a release. */
type StoredFile = Pick<IssueFile, 'id' | 'name' | 'size' | 'uuid' | 'createdAt'>

/** Returns the parameters of a path to a file, from those of its holder. */
export const fileParams = <P extends TObject>({ properties }: P) =>
  Type.Object({ ...properties, attachment_id: Type.String() })

export const noSuchFile = ({ views }: Pick<Services, 'views'>): Refused =>
  notFoundIn(views.comments, 'attachment not found')

/** An issue, a comment or a release, with its files. */
export interface WithFiles {
  files: readonly StoredFile[]
  /** The read model that has it. */
  view: Parameters<typeof notFoundIn>[0]
}

/** Returns the file with that id. @throws Refused (not found), also for a file of another holder */
export function fileIn({ files, view }: WithFiles, id: string): StoredFile {
  const number = pathNumber(id)
  const file = files.find((one) => one.id === number)
  if (file === undefined) throw notFoundIn(view, 'attachment not found')
  return file
}

/** A kind of file holders: its path, and the look-up of a holder. */
export interface HasFiles<P extends TObject, Holder extends WithFiles> {
  scope: ScopeCategory
  path: string
  /** The parameters of the path. */
  params: P
  /** Returns the holder in the path. @throws Refused when it does not exist, or without the permission */
  holderOf(request: FastifyRequest & { params: Static<P> }): Promise<Holder>
}

/** Adapts a function to requests whose parameters TypeScript does not know. */
export function requestOf<P extends TObject, R>(
  params: P,
  use: (request: FastifyRequest & { params: Static<P> }) => Promise<R>,
): (request: FastifyRequest) => Promise<R> {
  const hasParams = checkOf(params)
  const isFor = (request: FastifyRequest): request is FastifyRequest & { params: Static<P> } =>
    hasParams(request.params)
  return async (request) => {
    if (!isFor(request)) throw new Error(`${request.routeOptions.url} has other parameters`)
    return use(request)
  }
}

export const AttachmentWire = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    size: Type.Integer(),
    download_count: Type.Integer(),
    created_at: Type.String(),
    uuid: Type.String(),
    browser_download_url: Type.String(),
  },
  { title: 'Attachment' },
)

/** Returns a file as Gitea's `Attachment`. Downloads are not counted. */
export function attachmentWire(file: StoredFile, publicUrl: string): Static<typeof AttachmentWire> {
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
