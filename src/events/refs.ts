/** How events name accounts and issues. */

/** An account as events name it. The id identifies it; the login is for people who read the log. */
export interface AccountRef {
  id: number
  login: string
}

/** An issue or pull request, as another one names it, and as its own events do. */
export interface IssueRef {
  repoId: number
  index: number
}
