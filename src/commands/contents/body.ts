/** Schemas of bodies that change files, and the commit options in them. */
import { type Static, Type } from 'typebox'
import { instantOf, ZERO_TIME } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Services } from '../../services/services.ts'
import { TextOf } from '../execution/text-schema.ts'
import { type FileChange, OPERATIONS, type Operation } from './contents.decider.ts'

/** Maximum number of files in a commit: each is an object that is flushed to disk. */
const MAX_FILES = 500

const Name = Type.Optional(Type.String({ maxLength: 255 }))
const Identity = Type.Object({ name: Name, email: Name }, { title: 'Identity' })
const Content = Type.String({ description: 'Content of the file, in base64' })
const Sha = Type.String({ description: 'Blob id of the present file; another one gives 422', maxLength: 64 })

const commitFields = (services: Services) => ({
  message: Type.Optional(TextOf(services)),
  branch: Type.Optional(Type.String({ description: 'Branch to commit to; default: the default branch' })),
  new_branch: Type.Optional(Type.String({ description: 'New branch for the commit, made from `branch`' })),
  author: Type.Optional(Identity),
  committer: Type.Optional(Identity),
  dates: Type.Optional(
    Type.Object({ author: Type.Optional(Type.String()), committer: Type.Optional(Type.String()) }),
  ),
  signoff: Type.Optional(Type.Boolean()),
})

/** Returns the schemas of the bodies, with the configured limits. */
export function contentsBodies(services: Services) {
  const commit = commitFields(services)
  return {
    create: Type.Object({ ...commit, content: Content }, { title: 'CreateFileOptions' }),
    update: Type.Object(
      {
        ...commit,
        content: Content,
        sha: Type.Optional(Sha),
        from_path: Type.Optional(Type.String()),
      },
      { title: 'UpdateFileOptions' },
    ),
    remove: Type.Object({ ...commit, sha: Sha }, { title: 'DeleteFileOptions' }),
    change: Type.Object(
      {
        ...commit,
        files: Type.Array(
          Type.Object({
            operation: Type.String({ description: `Kind of the change: ${OPERATIONS.join(', ')}` }),
            path: Type.String(),
            content: Type.Optional(Content),
            from_path: Type.Optional(Type.String()),
            sha: Type.Optional(Sha),
          }),
          { minItems: 1, maxItems: MAX_FILES },
        ),
      },
      { title: 'ChangeFilesOptions' },
    ),
  }
}

type CommitBody = Static<ReturnType<typeof contentsBodies>['create']>
type Person = { name?: string; email?: string }

/** The options of a commit in a request. */
export interface CommitOptions {
  message: string
  branch: string
  newBranch: string
  author: Person
  committer: Person
  /** ISO 8601; undefined for the time of the request. */
  authorDate: string | undefined
  committerDate: string | undefined
  signoff: boolean
}

/** @throws Refused (unprocessable) for an invalid date */
export function commitOptions(body: Omit<CommitBody, 'content'>, defaultBranch: string): CommitOptions {
  const branch = body.branch || defaultBranch
  return {
    message: body.message?.trim() ?? '',
    branch,
    newBranch: body.new_branch || branch,
    author: body.author ?? {},
    committer: body.committer ?? {},
    authorDate: dateIn('dates.author', body.dates?.author),
    committerDate: dateIn('dates.committer', body.dates?.committer),
    signoff: body.signoff ?? false,
  }
}

/** Parses a date. Go clients send the zero time for an absent one. */
function dateIn(field: string, text: string | undefined): string | undefined {
  if (text === undefined || text === '' || text === ZERO_TIME) return undefined
  if ((instantOf(text) ?? -1) < 0) throw unprocessable(`${field}: must be a date-time after 1970`)
  return text.toUpperCase()
}

/** A change whose content is not stored yet. */
export type RequestedChange = Omit<FileChange, 'blob'> & { content: readonly Buffer[] | undefined }

interface ChangeBody {
  operation: string
  path: string
  content?: string
  from_path?: string
  sha?: string
}

/**
 * Parses one change of a file. `decode` returns undefined for invalid base64: a truncated content must not become a
 * file. @throws Refused (unprocessable) for an unknown operation or invalid base64
 */
export function requestedChange(
  body: ChangeBody,
  decode: (text: string) => readonly Buffer[] | undefined,
  field = '',
): RequestedChange {
  const { operation, path, from_path, sha } = body
  if (!isOperation(operation)) {
    throw unprocessable(`${field}operation: must be one of ${OPERATIONS.join(', ')}`)
  }
  const text = operation === 'delete' || operation === 'rename' ? undefined : body.content
  const content = text === undefined ? undefined : decode(text)
  if (text !== undefined && content === undefined) throw unprocessable(`${field}content: is not base64`)
  return {
    operation,
    path,
    fromPath: from_path || path,
    sha: sha ?? '',
    content,
    field,
  }
}

const isOperation = (text: string): text is Operation => OPERATIONS.some((known) => known === text)

function unprocessable(reason: string): Refused {
  return new Refused(refuse.unprocessable(reason, [reason]))
}
