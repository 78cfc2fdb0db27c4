/** The names of streams. They follow EventStoreDB's `category-id` convention. */

export const userStream = (id: number) => `user-${id}`
export const organizationStream = (id: number) => `org-${id}`
export const repositoryStream = (id: number) => `repo-${id}`
/** The ref updates of a repository. */
export const gitStream = (repoId: number) => `git-${repoId}`
export const pullStream = (repoId: number, index: number) => `pull-${repoId}.${index}`
export const issueStream = (repoId: number, index: number) => `issue-${repoId}.${index}`
export const labelStream = (id: number) => `label-${id}`
export const milestoneStream = (id: number) => `milestone-${id}`
/** The statuses of a commit. */
export const checksStream = (repoId: number, sha: string) => `checks-${repoId}.${sha}`
/** The issues and pull requests that a user has read. */
export const readsStream = (userId: number) => `reads-${userId}`
/** The large files of a repository. */
export const lfsStream = (repoId: number) => `lfs-${repoId}`
/** The locks of one path. `digest`: SHA-256 of the path. */
export const lfsLockStream = (repoId: number, digest: string) => `lfs-${repoId}.${digest}`
export const webhookStream = (id: number) => `webhook-${id}`
export const releaseStream = (id: number) => `release-${id}`
/** A user's stars and watches of a repository. */
export const followStream = (repoId: number, userId: number) => `follow-${repoId}.${userId}`
/** A public key of a user, and one of a repository. `digest`: of its fingerprint. */
export const sshKeyStream = (digest: string) => `ssh-key-${digest}`
export const deployKeyStream = (repoId: number, digest: string) => `deploy-key-${repoId}.${digest}`
/** A public key of OpenPGP. */
export const gpgKeyStream = (longId: string) => `gpg-key-${longId}`
/** A user's subscription to an issue or pull request. */
export const subscriptionStream = (repoId: number, index: number, userId: number) =>
  `subscription-${repoId}.${index}.${userId}`
/** The references of a text or commit. `text`: `<index>.<comment>`, or the commit. */
export const referencesStream = (repoId: number, text: string) => `references-${repoId}.${text}`
/** The upgrades of the served blockchain. */
export const UPGRADE_STREAM = 'upgrade-chain'
/** The signed checkpoints of the log. */
export const LOG_CHECKPOINTS_STREAM = 'log-checkpoints'
/** Whether the stream belongs to a pull request (and not to an issue). */
export const isPullStream = (stream: string) => stream.startsWith('pull-')
/** Whether the stream belongs to an issue (and not to a pull request). */
export const isIssueStream = (stream: string) => stream.startsWith('issue-')
/** The stream of an issue or a pull request. */
export const discussionStream = (issue: { repoId: number; index: number; isPull: boolean }) =>
  (issue.isPull ? pullStream : issueStream)(issue.repoId, issue.index)
/** The sequence of numbers that issues and pull requests of a repository share. */
export const numbersStream = (repoId: number) => `numbers-${repoId}`
/** The server-wide sequence of ids of one kind. */
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
    | 'release'
    | 'status'
    | 'key'
    | 'branch-protection'
    | 'tag-protection'
    | 'lfs-lock'
    | 'webhook',
) => `ids-${kind}`
/** Whether the stream is a sequence of ids. */
export const isIdsStream = (stream: string) => stream.startsWith('ids-')
export const claimStream = (key: string) => `claim-${key}`

/** Keys of claims. Each key has one holder, determined by an append to its stream, never by a query. */
export const claimKeys = {
  /** Users and organizations share one set of names. Case is ignored. */
  login: (login: string) => `login-${login.toLowerCase()}`,
  /** E-mail addresses are unique among users. */
  email: (email: string) => `email-${email.toLowerCase()}`,
  /** A person at a provider has one account. `digest`: of the issuer and the subject. */
  identity: (digest: string) => `identity-${digest}`,
  /** Taken during the deletion of an account, and kept: no new resource may get this owner. */
  deletion: (accountId: number) => `deletion-${accountId}`,
  repository: (ownerId: number, name: string) => `repository-${ownerId}/${name.toLowerCase()}`,
  /** An owner may have one fork of a repository. */
  fork: (baseId: number, ownerId: number) => `fork-${baseId}/${ownerId}`,
  /** A tag may have one release, including drafts. */
  release: (repoId: number, tag: string) => `release-${repoId}/${tag}`,
  /** A head and a base may have one open pull request. */
  pull: (head: { repoId: number; branch: string }, base: { repoId: number; branch: string }) =>
    `pull-${head.repoId}:${head.branch}>${base.repoId}:${base.branch}`,
}

const CATEGORIES =
  /^(?:user|org|repo|git|pull|issue|label|milestone|checks|reads|lfs|webhook|release|follow|ssh-key|deploy-key|gpg-key|subscription|references|upgrade|numbers|ids|claim|log)-/

/** Whether a stream has a name like Mergelog's. Another application on the same server may use such a name, too. */
export const isStreamName = (stream: string) => CATEGORIES.test(stream)
