/**
 * Whether this title marks a pull request as work in progress: clients show it as a draft, and it cannot be merged.
 */
export function isWorkInProgress(title: string): boolean {
  return /^(WIP:|\[WIP\])/i.test(title)
}
