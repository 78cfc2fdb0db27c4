/** Objects and refs of git on the wire. */
import { type Static, Type } from 'typebox'
import { ZERO_TIME } from '../../domain/times.ts'
import type { TagFacts } from '../../git/refs/tags.ts'
import type { ListedEntry } from '../../git/trees/tree-listings.ts'
import { Nullable } from '../nullable.ts'
import { CommitUserWire, CommitWire, VerificationWire } from './commits.ts'

/** Default and maximum number of entries on a page of a tree, as in Gitea. */
export const TREE_PAGE = 1000

export const GitEntryWire = Type.Object(
  {
    path: Type.String(),
    mode: Type.String(),
    type: Type.String(),
    size: Type.Integer(),
    sha: Type.String(),
    url: Type.String(),
  },
  { title: 'GitEntry' },
)

export const GitTreeWire = Type.Object(
  {
    sha: Type.String(),
    url: Type.String(),
    tree: Type.Array(GitEntryWire),
    truncated: Type.Boolean({ description: 'Whether more pages follow' }),
    page: Type.Integer(),
    total_count: Type.Integer(),
  },
  { title: 'GitTreeResponse' },
)

export const GitBlobWire = Type.Object(
  {
    content: Nullable(Type.String(), { description: 'Content in base64; null when too large' }),
    encoding: Nullable(Type.String()),
    url: Type.String(),
    sha: Type.String(),
    size: Type.Integer(),
  },
  { title: 'GitBlobResponse' },
)

const GitObjectWire = Type.Object(
  { type: Type.String(), sha: Type.String(), url: Type.String() },
  { title: 'GitObject' },
)

export const ReferenceWire = Type.Object(
  { ref: Type.String(), url: Type.String(), object: GitObjectWire },
  { title: 'Reference' },
)

export const AnnotatedTagWire = Type.Object(
  {
    tag: Type.String(),
    sha: Type.String(),
    url: Type.String(),
    message: Type.String(),
    tagger: CommitUserWire,
    object: GitObjectWire,
    verification: VerificationWire,
  },
  { title: 'AnnotatedTag' },
)

export const NoteWire = Type.Object({ message: Type.String(), commit: CommitWire }, { title: 'Note' })

/** `api`: the repository's URL in the API. `sizes`: sizes of the files, in bytes, by their ids. */
export function gitEntryWire(
  { path, mode, type, sha }: ListedEntry,
  api: string,
  sizes: ReadonlyMap<string, number>,
): Static<typeof GitEntryWire> {
  // A submodule is a commit of another repository.
  const url = type === 'commit' ? '' : `${api}/git/${type}s/${sha}`
  return { path, mode, type, size: type === 'blob' ? (sizes.get(sha) ?? 0) : 0, sha, url }
}

export function referenceWire(
  { ref, sha, type }: { ref: string; sha: string; type: string },
  api: string,
): Static<typeof ReferenceWire> {
  const path = ref.split('/').map(encodeURIComponent).join('/')
  return { ref, url: `${api}/git/${path}`, object: { type, sha, url: `${api}/git/${type}s/${sha}` } }
}

export function annotatedTagWire(
  { sha, name, message, tagger, object, signed }: TagFacts,
  api: string,
): Static<typeof AnnotatedTagWire> {
  return {
    tag: name,
    sha,
    url: `${api}/git/tags/${sha}`,
    message,
    tagger: tagger ?? { name: '', email: '', date: ZERO_TIME },
    object: { ...object, url: `${api}/git/${object.type}s/${object.sha}` },
    verification: {
      verified: false,
      reason: signed === undefined ? 'gpg.error.not_signed_commit' : 'gpg.error.no_gpg_keys_found',
      signature: signed?.signature ?? '',
      signer: null,
      payload: signed?.payload ?? '',
    },
  }
}
