/** Reads the events that the evidence of a merge rests on. */
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import { decode } from '../../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../../events/domain-events.ts'
import { withoutTexts } from '../../../events/sealing/sealed-texts.ts'
import type { Position, RecordedEvent } from '../../../events/store/event-store.ts'
import { checksStream, pullStream } from '../../../events/streams.ts'
import type { Services } from '../../../services/services.ts'
import type { ReplayClient } from '../../history/replay/replay-client.ts'
import { streamBatches } from '../../history/replay/stream-batches.ts'
import {
  appliedProtection,
  baseBranchOf,
  isDecidedStatus,
  isMergeMove,
  isPullEvidence,
  type Merge,
  mergeIn,
} from './decided-merge.fold.ts'

export type EvidenceServices = Pick<Services, 'texts' | 'views'>

/** Maximum number of pushes that are searched for the one of a manual merge. */
const MAX_PUSHES = 1000
/** Maximum number of protection events of a repository that are read for one merge. */
const MAX_PROTECTIONS = 10_000
/** Number of positions that are looked up together. */
const CHUNK = 100
/** Maximum size of the events of one document, in characters. */
const MAX_DOCUMENT = 16 * 1024 * 1024
/** Maximum number of other events that a document names. */
const MAX_OMITTED = 100_000

/** A stored event, as it is and decoded without its texts. */
interface EvidenceEvent {
  stored: RecordedEvent
  event: Recorded<DomainEvent>
}

export interface Evidence {
  /** In the order of the log. */
  events: EvidenceEvent[]
  /** The other events of the pull request up to its merge. Only for a document. */
  omitted: { revision: number; hash: string }[]
}

const evidenceEvent = (stored: RecordedEvent): EvidenceEvent => ({
  stored,
  event: decode(withoutTexts(stored)),
})

/**
 * Reads the events of a pull request's evidence; undefined when it is not merged. A document needs the whole stored events.
 * @throws StoreUnavailable, UnreadableEvent, the reason of `client.gone`, and Refused (unprocessable) when there are too
 *   many events for a document
 */
export async function readEvidence(
  services: EvidenceServices,
  pull: IssueRef,
  client: ReplayClient,
  { forDocument }: { forDocument: boolean },
): Promise<Evidence | undefined> {
  const { events, omitted } = await pullEvents(services, pull, client, forDocument)
  const merge = mergeIn(events.map(({ event }) => event))
  if (merge === undefined) return undefined
  const [protection, statuses, move] = await Promise.all([
    protectionOf(services, pull.repoId, merge),
    statusesOf(services, pull.repoId, merge, client),
    moveOf(services, pull.repoId, merge),
  ])
  const all = [...events, ...statuses, ...[protection, move].filter((found) => found !== undefined)]
  return { events: all.sort((a, b) => a.event.position - b.event.position), omitted }
}

/** Reads the stream of the pull request up to its merge. */
async function pullEvents(
  { texts: { stored } }: EvidenceServices,
  { repoId, index }: IssueRef,
  client: ReplayClient,
  forDocument: boolean,
): Promise<Evidence> {
  const events: EvidenceEvent[] = []
  const omitted: Evidence['omitted'] = []
  let size = 0
  for await (const batch of streamBatches(stored, pullStream(repoId, index), { from: 0 }, client)) {
    for (const recorded of batch) {
      if (!isPullEvidence(recorded)) {
        const { revision, metadata } = recorded
        if (forDocument) omitted.push({ revision, hash: metadata.hash ?? '' })
        continue
      }
      const event = decode(withoutTexts(recorded))
      if (forDocument) size += JSON.stringify(recorded.data).length
      if (size > MAX_DOCUMENT || omitted.length > MAX_OMITTED) {
        throw new Refused(refuse.unprocessable('the pull request has more events than fit into a document'))
      }
      events.push({ stored: forDocument ? recorded : withoutTexts(recorded), event })
      if (event.type === 'PullRequestMerged') return { events, omitted }
    }
  }
  return { events, omitted }
}

/** Finds the protection that applied, by the index of the repository's history. */
async function protectionOf(
  services: EvidenceServices,
  repoId: number,
  merge: Merge,
): Promise<EvidenceEvent | undefined> {
  const { decided } = merge
  if (decided.data.decision?.protection === null) return undefined
  const { history } = services.views
  const found = await Promise.all(
    (['BranchProtectionSet', 'BranchProtectionRemoved'] as const).map((type) =>
      history.find(
        { repoId, type, position: { $lt: decided.position } },
        { sort: [['position', -1]], limit: MAX_PROTECTIONS },
      ),
    ),
  )
  const positions = found.flat().map(({ position }) => position)
  const events = await eventsAt(services, positions)
  const applied = appliedProtection(
    merge,
    baseBranchOf(merge),
    events.map(({ event }) => event),
  )
  return events.find(({ event }) => event === applied)
}

/** Reads the last status of each context before the decision. */
async function statusesOf(
  { texts: { stored } }: EvidenceServices,
  repoId: number,
  merge: Merge,
  client: ReplayClient,
): Promise<EvidenceEvent[]> {
  const latest = new Map<string, EvidenceEvent>()
  const stream = checksStream(repoId, merge.merged.data.head)
  for await (const batch of streamBatches(stored, stream, { from: 0 }, client)) {
    for (const recorded of batch) {
      const found = evidenceEvent(recorded)
      if (isDecidedStatus(merge, found.event)) latest.set(found.event.data.context, found)
    }
  }
  return [...latest.values()]
}

/**
 * Finds the move of the base branch to the merge's commit: right after the decision, or for a manual merge among the pushes
 * before it.
 */
async function moveOf(
  services: EvidenceServices,
  repoId: number,
  merge: Merge,
): Promise<EvidenceEvent | undefined> {
  const { decided, merged } = merge
  const isManual = decided.type === 'PullRequestMerged'
  let position: { $lt: Position } | { $gt: Position; $lt: Position } = isManual
    ? { $lt: merged.position }
    : { $gt: decided.position, $lt: merged.position }
  for (let read = 0; read < MAX_PUSHES; read += CHUNK) {
    const documents = await services.views.history.find(
      { repoId, type: 'RefsUpdated', position },
      { sort: [['position', -1]], limit: CHUNK },
    )
    const events = await eventsAt(
      services,
      documents.map((document) => document.position),
    )
    const found = events.findLast(({ event }) => isMergeMove(merge, event))
    const oldest = documents.at(-1)
    if (found !== undefined || oldest === undefined || documents.length < CHUNK) return found
    position = { ...position, $lt: oldest.position }
  }
  return undefined
}

/** Reads the events at these positions, in the order of the log. */
async function eventsAt(
  { texts: { stored } }: EvidenceServices,
  positions: readonly Position[],
): Promise<EvidenceEvent[]> {
  const ascending = positions.toSorted((a, b) => a - b)
  return await Array.fromAsync(stored.readPositions(ascending), evidenceEvent)
}
