/** What the data of the events in `reference-events.ts` looks like. */

import { REFERENCE_ACTIONS } from '../markup/references.ts'
import { issue } from './ref-shapes.ts'
import type { ReferencesData } from './reference-events.ts'
import type { IssueRef } from './refs.ts'
import {
  type AnyCheck,
  type Checks,
  fields,
  flag,
  list,
  object,
  orNull,
  text,
  whole,
  word,
} from './shapes.ts'

const ofText = fields({ index: whole, isPull: flag, commentId: orNull(whole) })
const ofCommit = fields({ sha: text, subject: text })
const source: AnyCheck = (value) =>
  (typeof value === 'object' && value !== null && 'sha' in value ? ofCommit : ofText)(value)

export const referenceShapes: { readonly ReferencesRecorded: Checks<ReferencesData> } = {
  ReferencesRecorded: {
    repoId: whole,
    source,
    revision: orNull(whole),
    references: list(
      object<ReferencesData['references'][number]>({
        issue: object<IssueRef>(issue),
        action: word(...REFERENCE_ACTIONS),
        inTitle: flag,
      }),
    ),
  },
}
