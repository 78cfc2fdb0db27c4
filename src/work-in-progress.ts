/** Whether a pull request with this title is a work in progress: it cannot be merged, and clients show it as a draft. */
export function isWorkInProgress(title: string): boolean {
  return /^(WIP:|\[WIP\])/i.test(title)
}
