/** Records the issues and pull requests that a text references. */

import type { ReferencesData } from '../../events/catalog/references.ts'
import { decode } from '../../events/codec.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { streamOfReferences } from '../../projections/models/issues/references.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { append } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { mayChangeStatus, type ReferencedIssue } from './referenced-issues.ts'

export type TextPlace = Pick<ReferencesData, 'repoId' | 'source'>

/** Returns the recorded references of a text; undefined when there are none. */
export async function recordedReferences(
  { events }: Services,
  place: TextPlace,
): Promise<ReferencesData | undefined> {
  for await (const last of events.readStream(streamOfReferences(place), {
    direction: 'backwards',
    maxCount: 1,
  })) {
    const event = decode(last)
    if (event.type === 'ReferencesRecorded') return event.data
  }
  return undefined
}

/** The resolved references of title and body. An absent one has not changed. */
interface ChangedTexts extends Pick<ReferencesData, 'revision'> {
  title?: ReferencesData['references']
  body?: ReferencesData['references']
}

/**
 * Records the references when they differ from the recorded ones. Ignores those of an older revision, since a process
 * repeats events.
 */
export async function recordReferences(
  services: Services,
  context: CommandContext,
  { repoId, source }: TextPlace,
  { revision, title, body }: ChangedTexts,
): Promise<void> {
  const before = await recordedReferences(services, { repoId, source })
  if (revision !== null && revision < (before?.revision ?? 0)) return
  const [ofTitle = [], ofBody = []] = [true, false].map((isTitle) =>
    before?.references.filter(({ inTitle }) => inTitle === isTitle),
  )
  const references = [...(body ?? ofBody), ...(title ?? ofTitle)]
  if (JSON.stringify(before?.references ?? []) === JSON.stringify(references)) return
  const data = { repoId, source, revision, references }
  const recorded = { type: 'ReferencesRecorded', data } as const
  await append(services, context, streamOfReferences(data), 'references', [recorded], 'any')
}

/**
 * Returns the references of a text for an event, without the text's own issue. As in Gitea, only the title and body of
 * a pull request close issues; those of another repository only if the author may close them.
 */
export function referencesOf(
  { repoId, source }: TextPlace,
  named: readonly ReferencedIssue[],
  author: AccountDocument,
  inTitle: boolean,
): ReferencesData['references'] {
  const own = 'sha' in source ? '' : issueId(repoId, source.index)
  const mayClose = 'isPull' in source && source.isPull && source.commentId === null
  return named.flatMap((one) => {
    const { issue, action } = one
    if (issueId(issue.repoId, issue.index) === own) return []
    const closes = mayClose && !issue.isPull && (issue.repoId === repoId || mayChangeStatus(one, author))
    return [
      { issue: { repoId: issue.repoId, index: issue.index }, action: closes ? action : 'none', inTitle },
    ]
  })
}
