/** Files and directories of a repository on the wire, as Gitea's `ContentsResponse`. */
import { type Static, Type } from 'typebox'
import type { CommitFacts } from '../../git/commits/commits.ts'
import type { NamedCommit } from '../../git/commits/named-commit.ts'
import { pathInUrl } from '../../git/objects/byte-names.ts'
import { kindOf, type TreeEntry } from '../../git/trees/tree-entries.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { Nullable } from '../nullable.ts'
import { CommitMetaWire, CommitUserWire, VerificationWire, verificationWire } from './commits.ts'

const Text = Nullable(Type.String())

export const ContentsWire = Type.Object(
  {
    name: Type.String(),
    path: Type.String(),
    sha: Type.String(),
    last_commit_sha: Type.Optional(
      Type.String({
        description: 'Last commit that changed the file; absent when too far back in the history',
      }),
    ),
    last_committer_date: Type.Optional(Type.String()),
    last_author_date: Type.Optional(Type.String()),
    last_commit_message: Type.Optional(Type.String()),
    type: Type.String({ description: 'Kind of the entry: file, dir, symlink or submodule' }),
    size: Type.Integer(),
    encoding: Text,
    content: Text,
    target: Text,
    url: Type.String(),
    html_url: Text,
    git_url: Text,
    download_url: Text,
    submodule_git_url: Text,
    lfs_oid: Type.Optional(
      Type.String({ description: 'SHA-256 of the LFS object, when `includes` names it' }),
    ),
    lfs_size: Type.Optional(Type.Integer()),
    _links: Type.Object({ self: Type.String(), git: Text, html: Text }),
  },
  { title: 'ContentsResponse' },
)

export type Contents = Static<typeof ContentsWire>

/** The repository and the commit of an entry. */
export interface ContentsPlace {
  repository: RepositoryDocument
  publicUrl: string
  commit: NamedCommit
}

/** The fields of the commit that changed an entry last. */
export interface LastCommit {
  sha: string
  /** Author and committer dates, as in commits. */
  authored: string
  committed: string
  message: string
}

/** The facts about an entry that its tree lacks. */
export interface EntryFacts {
  size: number
  /** Content of a file, unless it is too large for an answer. */
  content?: Buffer | undefined
  /** Target of a link. */
  target?: string | undefined
  submoduleUrl?: string | undefined
  lastCommit?: LastCommit | undefined
  /** Whether the client wants the message of the last commit. */
  withMessage?: boolean
  /** The LFS object, when the file is a pointer. */
  lfs?: { oid: string; size: number } | undefined
}

/** Formats a time of a commit in UTC, as Gitea does. */
const inUtc = (date: string) => `${new Date(date).toISOString().slice(0, 19)}Z`

export function contentsWire(
  place: ContentsPlace,
  path: string,
  entry: TreeEntry,
  { size, content, target, submoduleUrl, lastCommit, withMessage = false, lfs }: EntryFacts,
): Contents {
  const { repository, publicUrl, commit } = place
  const kind = kindOf(entry)
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const api = `${publicUrl}/api/v1/repos/${fullName}`
  const self = `${api}/contents/${pathInUrl(path)}?ref=${encodeURIComponent(commit.name)}`
  const page = (word: string) =>
    `${publicUrl}/${fullName}/${word}/${commit.kind}/${pathInUrl(commit.name)}/${pathInUrl(path)}`
  const html = kind === 'submodule' ? null : page('src')
  const git = kind === 'submodule' ? null : `${api}/git/${kind === 'dir' ? 'trees' : 'blobs'}/${entry.id}`
  return {
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    sha: entry.id,
    ...(lastCommit !== undefined && {
      last_commit_sha: lastCommit.sha,
      last_committer_date: inUtc(lastCommit.committed),
      last_author_date: inUtc(lastCommit.authored),
      ...(withMessage && { last_commit_message: lastCommit.message }),
    }),
    type: kind,
    size,
    encoding: content === undefined ? null : 'base64',
    content: content === undefined ? null : content.toString('base64'),
    target: target ?? null,
    url: self,
    html_url: html,
    git_url: git,
    download_url: kind === 'file' || kind === 'symlink' ? page('raw') : null,
    submodule_git_url: submoduleUrl ?? null,
    ...(lfs !== undefined && { lfs_oid: lfs.oid, lfs_size: lfs.size }),
    _links: { self, git, html },
  }
}

const FileCommitWire = Type.Object(
  {
    url: Type.String(),
    sha: Type.String(),
    created: Type.String(),
    html_url: Type.String(),
    author: CommitUserWire,
    committer: CommitUserWire,
    parents: Type.Array(CommitMetaWire),
    message: Type.String(),
    tree: CommitMetaWire,
  },
  { title: 'FileCommitResponse' },
)

const ofCommit = { commit: FileCommitWire, verification: VerificationWire }
const FileCommitParts = Type.Object(ofCommit)

export const FileWire = Type.Object(
  { content: Nullable(ContentsWire), ...ofCommit },
  { title: 'FileResponse' },
)
export const FilesWire = Type.Object(
  { files: Type.Array(Nullable(ContentsWire)), ...ofCommit },
  { title: 'FilesResponse' },
)

/** Returns the commit that changed files, with its verification. */
export function fileCommitWire(
  { repository, publicUrl }: Pick<ContentsPlace, 'repository' | 'publicUrl'>,
  facts: CommitFacts,
  isVerified: boolean,
): Static<typeof FileCommitParts> {
  const { sha, author, committer, message, tree, parents } = facts
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const api = `${publicUrl}/api/v1/repos/${fullName}/git`
  const created = inUtc(committer.date)
  const meta = (kind: 'commits' | 'trees', id: string) => ({ url: `${api}/${kind}/${id}`, sha: id, created })
  return {
    commit: {
      ...meta('commits', sha),
      html_url: `${publicUrl}/${fullName}/commit/${sha}`,
      author: { ...author, date: inUtc(author.date) },
      committer: { ...committer, date: created },
      parents: parents.map((parent) => meta('commits', parent)),
      message,
      tree: meta('trees', tree),
    },
    verification: verificationWire(facts, new Set(isVerified ? [sha] : [])),
  }
}
