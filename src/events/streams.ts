/** Names of streams, in EventStoreDB's `category-id` convention. */

export const userStream = (id: number) => `user-${id}`
export const organizationStream = (id: number) => `org-${id}`
export const repositoryStream = (id: number) => `repo-${id}`
/** The refs of a repository: pushes, merges. */
export const gitStream = (repoId: number) => `git-${repoId}`
export const pullStream = (repoId: number, index: number) => `pull-${repoId}.${index}`
export const issueStream = (repoId: number, index: number) => `issue-${repoId}.${index}`
export const labelStream = (id: number) => `label-${id}`
export const milestoneStream = (id: number) => `milestone-${id}`
/** What others say of a commit: statuses. */
export const checksStream = (repoId: number, sha: string) => `checks-${repoId}.${sha}`
/** What a user has read. */
export const readsStream = (userId: number) => `reads-${userId}`
/** The upgrades of the chain that this server answers for. */
export const UPGRADE_STREAM = 'upgrade-chain'
/** Whether the discussion in a stream is that of a pull request, not of an issue. */
export const isPullStream = (stream: string) => stream.startsWith('pull-')
/** Where an issue or a pull request is discussed. */
export const discussionStream = (issue: { repoId: number; index: number; isPull: boolean }) =>
  (issue.isPull ? pullStream : issueStream)(issue.repoId, issue.index)
/** The sequence that issues and pull requests of a repository share. */
export const numbersStream = (repoId: number) => `numbers-${repoId}`
/** The server-wide sequence of one kind of thing. */
export const idsStream = (
  kind:
    | 'account'
    | 'repository'
    | 'token'
    | 'issue'
    | 'comment'
    | 'attachment'
    | 'label'
    | 'milestone'
    | 'status',
) => `ids-${kind}`
export const claimStream = (key: string) => `claim-${key}`

/** Keys of claims: one holder each, decided by an append and never by a query. */
export const claimKeys = {
  /** Users and organizations share their names; case does not tell them apart. */
  login: (login: string) => `login-${login.toLowerCase()}`,
  /** No two users have the same e-mail address. */
  email: (email: string) => `email-${email.toLowerCase()}`,
  repository: (ownerId: number, name: string) => `repository-${ownerId}/${name.toLowerCase()}`,
  /** An owner has one fork of a repository at most. */
  fork: (baseId: number, ownerId: number) => `fork-${baseId}/${ownerId}`,
  /** One unmerged pull request per head and base. */
  pull: (head: { repoId: number; branch: string }, base: { repoId: number; branch: string }) =>
    `pull-${head.repoId}:${head.branch}>${base.repoId}:${base.branch}`,
}
