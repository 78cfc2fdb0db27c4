/** The changed files of a pull request on the wire. */
import { type Static, Type } from 'typebox'
import type { ChangedFile } from '../../git/diff/diff-reader.ts'
import { pathInUrl } from '../../git/objects/byte-names.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'

export const ChangedFileWire = Type.Object(
  {
    filename: Type.String(),
    previous_filename: Type.Optional(Type.String()),
    status: Type.String(),
    additions: Type.Integer(),
    deletions: Type.Integer(),
    changes: Type.Integer(),
    html_url: Type.String(),
    contents_url: Type.String(),
    raw_url: Type.String(),
  },
  { title: 'ChangedFile' },
)

/** Returns Gitea's word for the change. A modified file without changed lines, for example a binary file, is `unchanged`. */
function statusOf({ change, additions, deletions }: ChangedFile): string {
  if (change !== 'modified') return change
  return additions + deletions === 0 ? 'unchanged' : 'changed'
}

export function changedFileWire(
  file: ChangedFile,
  repository: RepositoryDocument,
  head: string,
  publicUrl: string,
): Static<typeof ChangedFileWire> {
  const { name, previousName, additions, deletions } = file
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const path = pathInUrl(name)
  return {
    filename: name,
    ...(previousName !== undefined && { previous_filename: previousName }),
    status: statusOf(file),
    additions,
    deletions,
    changes: additions + deletions,
    html_url: `${publicUrl}/${fullName}/src/commit/${head}/${path}`,
    contents_url: `${publicUrl}/api/v1/repos/${fullName}/contents/${path}?ref=${head}`,
    raw_url: `${publicUrl}/${fullName}/raw/commit/${head}/${path}`,
  }
}
