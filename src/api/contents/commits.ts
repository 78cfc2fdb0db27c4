/** Commits on the wire. */
import { type Static, Type } from 'typebox'
import { ZERO_TIME } from '../../domain/times.ts'
import type { CommitChanges } from '../../git/commits/commit-range.ts'
import type { CommitFacts } from '../../git/commits/commits.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { Nullable } from '../nullable.ts'
import { UserWire } from '../users/users.ts'

export const CommitMetaWire = Type.Object(
  { url: Type.String(), sha: Type.String(), created: Type.String() },
  { title: 'CommitMeta' },
)

export const CommitUserWire = Type.Object(
  { name: Type.String(), email: Type.String(), date: Type.String() },
  { title: 'CommitUser' },
)

export const VerificationWire = Type.Object(
  {
    verified: Type.Boolean(),
    reason: Type.String(),
    signature: Type.String(),
    signer: Type.Null(),
    payload: Type.String(),
  },
  { title: 'PayloadCommitVerification' },
)

export const CommitWire = Type.Object(
  {
    url: Type.String(),
    html_url: Type.String(),
    sha: Type.String(),
    created: Type.String(),
    commit: Type.Object({
      url: Type.String(),
      author: CommitUserWire,
      committer: CommitUserWire,
      message: Type.String(),
      tree: CommitMetaWire,
      verification: Nullable(VerificationWire),
    }),
    author: Nullable(UserWire),
    committer: Nullable(UserWire),
    parents: Type.Array(CommitMetaWire),
    files: Type.Union([
      Type.Array(Type.Object({ filename: Type.String(), status: Type.String() })),
      Type.Null(),
    ]),
    stats: Nullable(
      Type.Object({ total: Type.Integer(), additions: Type.Integer(), deletions: Type.Integer() }),
    ),
  },
  { title: 'Commit' },
)

/** The facts that all commits of one answer share. */
export interface CommitContext {
  repository: RepositoryDocument
  publicUrl: string
  /** Users by their e-mail address. */
  people: ReadonlyMap<string, Static<typeof UserWire>>
  changes: ReadonlyMap<string, CommitChanges>
  /** Ids of commits with a good signature; null when the client does not want verifications. */
  verified: ReadonlySet<string> | null
  /** Whether the client wants the files of each commit. */
  files: boolean
  /** Maximum number of listed files per commit. */
  maxFiles: number
  /** Whether the client wants the numbers of changed lines. */
  stat: boolean
}

/** The verification of an unsigned commit. */
export const NOT_SIGNED: Static<typeof VerificationWire> = {
  verified: false,
  reason: 'gpg.error.not_signed_commit',
  signature: '',
  signer: null,
  payload: '',
}

/** Returns the verification with the signature and the signed text, so that clients can verify it with their own keys. */
export function verificationWire(
  { sha, signed }: CommitFacts,
  verified: ReadonlySet<string>,
): Static<typeof VerificationWire> {
  if (signed === undefined) return NOT_SIGNED
  const isVerified = verified.has(sha)
  const reason = isVerified ? '' : 'gpg.error.no_gpg_keys_found'
  return { verified: isVerified, reason, ...signed, signer: null }
}

export function commitWire(facts: CommitFacts, context: CommitContext): Static<typeof CommitWire> {
  const { repository, publicUrl, people, changes, verified, files, maxFiles, stat } = context
  const { sha, author, committer, message, tree, parents } = facts
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const api = `${publicUrl}/api/v1/repos/${fullName}/git`
  const changed = changes.get(sha) ?? { additions: 0, deletions: 0, files: [] }
  return {
    url: `${api}/commits/${sha}`,
    html_url: `${publicUrl}/${fullName}/commit/${sha}`,
    sha,
    created: committer.date,
    commit: {
      url: `${api}/commits/${sha}`,
      author,
      committer,
      message,
      tree: { url: `${api}/trees/${tree}`, sha: tree, created: committer.date },
      verification: verified === null ? null : verificationWire(facts, verified),
    },
    author: people.get(author.email) ?? null,
    committer: people.get(committer.email) ?? null,
    parents: parents.map((parent) => ({ url: `${api}/commits/${parent}`, sha: parent, created: ZERO_TIME })),
    files: files
      ? changed.files.slice(0, maxFiles).map(({ name, status }) => ({ filename: name, status }))
      : null,
    stats: stat
      ? {
          total: changed.additions + changed.deletions,
          additions: changed.additions,
          deletions: changed.deletions,
        }
      : null,
  }
}
