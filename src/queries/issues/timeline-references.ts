/** The rows of a timeline for texts that name the issue or pull request. */

import { currentDocuments, readableRepositories } from '../../api/related-documents.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { ReferenceDocument } from '../../projections/models/issues/references.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { rowId, type TimelineRow } from './timeline-rows.ts'

/** Maximum number of texts in a timeline. */
const MAX_SHOWN = 1000

/** Returns the rows for texts that the requester may read, oldest first. */
export async function referenceRows(
  services: Services,
  { repoId, index }: IssueDocument,
  requester: AccountDocument | null,
): Promise<TimelineRow[]> {
  const key = issueId(repoId, index)
  const found = await services.views.references.find({ targetKeys: key }, { limit: MAX_SHOWN })
  if (found.length === 0) return []
  const repoIds = [...new Set(found.map((document) => document.repoId))]
  const readable = new Set(
    (await readableRepositories(currentDocuments(services), repoIds, requester)).map(({ id }) => id),
  )
  return found
    .filter((document) => readable.has(document.repoId))
    .flatMap((document) => rowsFor(key, document))
    .sort((a, b) => a.id - b.id)
}

function rowsFor(key: string, { repoId, source, targets }: ReferenceDocument): TimelineRow[] {
  return targets
    .filter((target) => target.key === key)
    .map(({ by, at, position, row, action }) => {
      const shared = { id: rowId(position, row), by, at, updatedAt: at }
      if ('sha' in source) {
        const { sha: commit, subject } = source
        return { ...shared, type: 'commit_ref', commitIn: repoId, commit, subject }
      }
      const { index, isPull, commentId } = source
      const type = commentId !== null ? 'comment_ref' : isPull ? 'pull_ref' : 'issue_ref'
      return { ...shared, type, namedIn: { repoId, index }, comment: commentId, action }
    })
}

/** Merges the rows of references into a timeline, by time. */
export function withReferences(
  rows: readonly TimelineRow[],
  others: readonly TimelineRow[],
): readonly TimelineRow[] {
  if (others.length === 0) return rows
  const result: TimelineRow[] = []
  let next = 0
  // Rows keep the order of the log even if their times differ from it. A text comes before its effects.
  for (const row of rows) {
    for (let other = others[next]; other !== undefined && other.at <= row.at; other = others[next]) {
      result.push(other)
      next += 1
    }
    result.push(row)
  }
  return [...result, ...others.slice(next)]
}
