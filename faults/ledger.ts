/** What the servers have acknowledged, and what they have answered that they must not answer. */

export interface Ledger {
  /** Titles by number. */
  issues: Map<number, string>
  /** Numbers of the issues that have the label. */
  labels: Set<number>
  /** Bodies by id. */
  comments: Map<number, string>
  /** Contents by name, and the comment that has the file. */
  files: Map<string, { comment: number; content: string; path: string }>
  /** Commits by branch. */
  pushes: Map<string, string>
  /** Commits by tag. */
  tags: Map<string, string>
  /** Head branches by number. */
  pulls: Map<number, string>
  /** Numbers of pull requests that were merged, and of those that are to be merged when their checks succeed. */
  merges: Set<number>
  schedules: Set<number>
  /** Branches that a merge has deleted. */
  deletedBranches: Set<string>
  /** Tokens by name. */
  tokens: Map<string, string>
  /** Repositories with their owners. */
  repositories: Set<string>
  deletedRepositories: Set<string>
  /** What was seen under load: wrong answers, and reads that did not show what was written. */
  problems: Set<string>
  /** Requests that got no answer, or that no server could do, and were sent again. */
  repeated: number
  /** Reads that followed a write at once, and how many writes said that queries lag. */
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

/** What a server acknowledges, as far as a fault can wait for it. */
export type Kind = 'issues' | 'comments' | 'pushes' | 'pulls' | 'merges'

/** How much of each kind there is, in words. */
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
