/** The acknowledged writes of the servers, and their wrong answers. */

export interface Ledger {
  /** Titles by number. */
  issues: Map<number, string>
  /** Numbers of the issues that have the label. */
  labels: Set<number>
  /** Bodies by id. */
  comments: Map<number, string>
  /** Contents by name, and the comment with the file. */
  files: Map<string, { comment: number; content: string; path: string }>
  /** Commits by branch. */
  pushes: Map<string, string>
  /** Commits by tag. */
  tags: Map<string, string>
  /** Head branches by number. */
  pulls: Map<number, string>
  /** Numbers of the merged pull requests, and of those scheduled to merge when their checks succeed. */
  merges: Set<number>
  schedules: Set<number>
  /** Branches deleted by a merge. */
  deletedBranches: Set<string>
  /** Tokens by name. */
  tokens: Map<string, string>
  /** Repositories with their owners. */
  repositories: Set<string>
  deletedRepositories: Set<string>
  /** Problems seen under load: wrong answers, and reads that did not show a write. */
  problems: Set<string>
  /** Requests without an answer, or refused for lack of a ready server, that were retried. */
  repeated: number
  /** Reads immediately after a write, and the writes that reported lagging queries. */
  looks: number
  lagging: number
}

export const newLedger = (): Ledger => ({
  issues: new Map(),
  labels: new Set(),
  comments: new Map(),
  files: new Map(),
  pushes: new Map(),
  tags: new Map(),
  pulls: new Map(),
  merges: new Set(),
  schedules: new Set(),
  deletedBranches: new Set(),
  tokens: new Map(),
  repositories: new Set(),
  deletedRepositories: new Set(),
  problems: new Set(),
  repeated: 0,
  looks: 0,
  lagging: 0,
})

/** The kinds of acknowledgements that a fault can wait for. */
export type Kind = 'issues' | 'comments' | 'pushes' | 'pulls' | 'merges'

/** Returns the number of each kind, in words. */
export const amounts = (ledger: Ledger) => ({
  issues: ledger.issues.size,
  comments: ledger.comments.size,
  files: ledger.files.size,
  pushes: ledger.pushes.size + ledger.deletedBranches.size,
  tags: ledger.tags.size,
  'pull requests': ledger.pulls.size,
  merges: ledger.merges.size + ledger.schedules.size,
  tokens: ledger.tokens.size,
  repositories: ledger.repositories.size + ledger.deletedRepositories.size,
})
