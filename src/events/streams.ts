/** Names of streams, in EventStoreDB's `category-id` convention. */

export const userStream = (id: number) => `user-${id}`
export const organizationStream = (id: number) => `org-${id}`
export const repositoryStream = (id: number) => `repo-${id}`
/** The refs of a repository: pushes, merges. */
export const gitStream = (repoId: number) => `git-${repoId}`
export const pullStream = (repoId: number, index: number) => `pull-${repoId}.${index}`
/** The sequence that issues and pull requests of a repository share. */
export const numbersStream = (repoId: number) => `numbers-${repoId}`
/** The server-wide sequence of one kind of thing. */
export const idsStream = (kind: 'account' | 'repository' | 'token' | 'issue') => `ids-${kind}`
export const claimStream = (key: string) => `claim-${key}`

/** Keys of claims: one holder each, decided by an append and never by a query. */
export const claimKeys = {
  /** Users and organizations share their names; case does not tell them apart. */
  login: (login: string) => `login-${login.toLowerCase()}`,
  /** No two users have the same e-mail address. */
  email: (email: string) => `email-${email.toLowerCase()}`,
  repository: (ownerId: number, name: string) => `repository-${ownerId}/${name.toLowerCase()}`,
  /** One unmerged pull request per head and base. */
  pull: (head: { repoId: number; branch: string }, base: { repoId: number; branch: string }) =>
    `pull-${head.repoId}:${head.branch}>${base.repoId}:${base.branch}`,
}
