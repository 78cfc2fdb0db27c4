/** Issues and pull requests with files of their own, which are few. The issues' documents describe the files. */
import { isPullStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId } from './issue-selection.ts'

export interface IssueFilesDocument {
  repoId: number
  index: number
  isPull: boolean
  files: { id: number; uuid: string; size: number }[]
  /** The uuids of the files, by which downloads find the issue. */
  uuids: string[]
}

const uuidsOf = (files: IssueFilesDocument['files']) => files.map(({ uuid }) => uuid)

export const issueFileFold: Fold<IssueFilesDocument> = foldOf({
  name: 'issue_files',
  indexes: [{ repoId: 1, index: 1 }],
  arrays: ['uuids'],
  version: 2,
  staysUntilRemoved: true,
  ids: ({ data: { repoId, index } }) => [issueId(repoId, index)],
  becomes: {
    IssueFileAdded(before, { stream, data: { repoId, index, attachment } }) {
      const { id, uuid, size } = attachment
      const files = [...(before?.files ?? []), { id, uuid, size }]
      return { repoId, index, isPull: isPullStream(stream), files, uuids: uuidsOf(files) }
    },
    IssueDeleted: () => undefined,
    IssueFileDeleted(before, { data: { attachmentId } }) {
      const files = (before?.files ?? []).filter(({ id }) => id !== attachmentId)
      return before === undefined || files.length === 0
        ? undefined
        : { ...before, files, uuids: uuidsOf(files) }
    },
  },
})
