/**
 * The named points at which a server can be killed: after each step of each saga. A step is an effect that is visible
 * outside: an append, a write of a document, a change of the data directory, a git process that has ended. `effects.ts`
 * gives each effect the text that is matched here.
 */

/** Sagas, with their steps in order. */
const SAGAS = {
  push: {
    'the marker is written': /^write \S+\/pushes\/\S+ .*"pid":[1-9]/,
    'the hook is answered': /^answer the hook$/,
    'git has moved the refs': /^git receive-pack --stateless-rpc (?!--advertise-refs)/,
    'the refs are recorded': /^append RefsUpdated \S+ push\b/,
    'the marker is removed': /^remove \S+\/pushes\/\S+ .*"pid":[1-9]/,
  },
  merge: {
    'the intent is recorded': /^append MergeStarted /,
    'the base branch has moved':
      /^(rename \S+\/refs\/heads\/main\.lock|git update-ref .*update refs\/heads\/main \w{40} (?!0{40}))/,
    'the move is recorded': /^append RefsUpdated \S+ merge\b/,
    'the outcome is recorded': /^append PullRequestMerged /,
    'the claim of head and base is released': /^append ClaimReleased claim-pull-/,
    'the head branch is deleted': /^git update-ref .*delete refs\/heads\/topic-/,
    'the deletion is recorded': /^append RefsUpdated \S+ branch-deletion\b/,
    'the deletion is in the history of the pull request': /^append HeadBranchDeleted /,
  },
  branch: {
    'the marker names the request': /^write \S+\/pushes\/\S+ .*"note"/,
    'git has the command to create the branch': /^tell git update-ref update refs\/heads\/made-/,
    'git has created the branch': /^git update-ref .*update refs\/heads\/made-/,
    'the branch is recorded': /^append RefsUpdated \S+ branch-creation\b/,
  },
  contents: {
    'the branch has moved': /^rename \S+\/refs\/heads\/made-\S+\.lock /,
    'the marker is removed': /^remove \S+\/pushes\/\S+ .*"note"/,
  },
  tag: {
    'git has the command to create the tag': /^tell git update-ref update refs\/tags\/made-/,
    'git has created the tag': /^git update-ref .*update refs\/tags\/made-/,
    'the tag is recorded': /^append RefsUpdated \S+ tag-creation\b/,
  },
  packing: {
    'git packs the refs': /^start git pack-refs /,
    'the refs are packed': /^git pack-refs /,
  },
  opening: {
    'the claim of head and base is taken': /^append ClaimTaken claim-pull-/,
    'the head is stored in the base repository': /^(link|git update-ref) .*refs\/pull\//,
    'the pull request is recorded': /^append PullRequestOpened /,
  },
  creation: {
    'the name is claimed': /^append ClaimTaken claim-repository-/,
    'the repository is created': /^rename .*\.git\.new-/,
    'the creation is recorded': /^append RepositoryCreated /,
    'the first branch is created': /^git update-ref .*update refs\/heads\/main \w{40} 0{40}/,
    'the first branch is recorded': /^append RefsUpdated \S+ auto-init\b/,
  },
  fork: {
    'the fork is claimed': /^append ClaimTaken claim-fork-/,
    'the branches are recorded': /^append RefsUpdated \S+ fork\b/,
  },
  deletion: {
    'the deletion is recorded': /^append RepositoryDeleted /,
    'the name is released': /^append ClaimReleased claim-repository-/,
    'the repository is renamed for removal': /^rename .*\.git\.gone-/,
  },
  attachment: {
    'the file has its final path': /^rename .*\/attachments\/incoming\//,
    'the attachment is recorded': /^append AttachmentAdded /,
  },
  token: {
    'the secret is stored': /^documents? \S*token_hashes/,
    'the token is recorded': /^append TokenCreated /,
  },
  schedule: {
    'the schedule is recorded': /^append MergeScheduled /,
    'the status is recorded': /^append CommitStatusPosted \S+ success/,
    'the intent is recorded': /^append MergeStarted .*follows$/,
  },
  rebuild: {
    'the new documents are current':
      /^document (checkpoints .*"labels\.generation"|\S+\.checkpoints labels\.v\d+$)/,
  },
} as const

export const SAGA_NAMES = Object.keys(SAGAS)

export interface Point {
  saga: string
  step: string
  /** Pattern of the effect after which the server is killed. */
  effect: RegExp
}

/** Returns the points of these sagas. */
export const pointsOf = (sagas: readonly string[]): Point[] =>
  Object.entries(SAGAS).flatMap(([saga, steps]) =>
    sagas.includes(saga)
      ? Object.entries(steps).map(([step, effect]): Point => ({ saga, step, effect }))
      : [],
  )
