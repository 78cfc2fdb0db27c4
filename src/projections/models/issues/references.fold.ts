/** The issues and pull requests that a text names: one document per text, and per commit. */

import type { ReferenceAction } from '../../../domain/markup/references.ts'
import type { AccountRef, IssueRef } from '../../../events/catalog/parts.ts'
import type { ReferencesData } from '../../../events/catalog/references.ts'
import type { Position } from '../../../events/store/event-store.ts'
import { referencesStream } from '../../../events/streams.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId } from './issue-selection.ts'

/** One issue that the text names. */
interface NamedTarget {
  key: string
  action: ReferenceAction
  /** Actor and time of the first reference. */
  by: AccountRef | null
  at: string
  position: Position
  /** Its index among the issues that the event names. */
  row: number
}

export interface ReferenceDocument extends Pick<ReferencesData, 'repoId' | 'source'> {
  targets: NamedTarget[]
  /** The ids of the issues. */
  targetKeys: string[]
}

export const referenceId = ({ repoId, source }: Pick<ReferencesData, 'repoId' | 'source'>) =>
  'sha' in source ? `${repoId}/${source.sha}` : `${issueId(repoId, source.index)}.${source.commentId ?? 0}`

/** The stream of the text's references. */
export const streamOfReferences = (text: Pick<ReferencesData, 'repoId' | 'source'>) =>
  referencesStream(text.repoId, referenceId(text).slice(`${text.repoId}.`.length))

const keyOf = ({ repoId, index }: IssueRef) => issueId(repoId, index)

export const referenceFold: Fold<ReferenceDocument> = foldOf({
  name: 'references',
  indexes: [{ repoId: 1 }],
  arrays: ['targetKeys'],
  version: 2,
  staysUntilRemoved: true,
  ids: ({ data }) => [referenceId(data)],
  becomes: {
    ReferencesRecorded(before, { data, position, metadata }) {
      const { repoId, source, references } = data
      if (references.length === 0) return undefined
      const known = new Map(before?.targets.map((target) => [target.key, target]))
      const named = new Map<string, ReferenceAction>()
      for (const { issue, action } of references) {
        if (action !== 'none' || !named.has(keyOf(issue))) named.set(keyOf(issue), action)
      }
      const targets = [...named].map(([key, action], row): NamedTarget => {
        const { actor: by, at } = metadata
        return { key, by, at, position, row, ...known.get(key), action }
      })
      return { repoId, source, targets, targetKeys: targets.map(({ key }) => key) }
    },
  },
})
