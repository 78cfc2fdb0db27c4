/** Makes the document of a merge's evidence: `evidence.3`. */
import type { EvidenceCommits, EvidenceFacts } from '../../../api/pull-requests/evidence.ts'
import {
  EVIDENCE_FORMAT,
  type EvidenceDocument,
  type StoredEvent,
} from '../../../api/pull-requests/evidence-document.ts'
import type { RecordedEvent } from '../../../events/store/event-store.ts'
import type { LogCheckpoints } from '../../../services/log-checkpoints.ts'
import type { Evidence } from './read-evidence.ts'

/** Number of attempts to prove all events by one checkpoint: another may be signed in between. */
const ATTEMPTS = 3

const UNSIGNED = 'the log is not signed: LOG_SIGNING_KEY is not set'
const UNCOVERED = 'no signed checkpoint covers all events yet; the next one follows within an hour'

type Proven = Pick<EvidenceDocument, 'checkpoint' | 'unproven'> & { proofs: StoredEvent['proof'][] }

export async function evidenceDocument(
  checkpoints: LogCheckpoints | undefined,
  { events, omitted }: Evidence,
  about: { repository: string; facts: EvidenceFacts; commits: EvidenceCommits },
): Promise<EvidenceDocument> {
  const stored = events.map((event) => event.stored)
  const { proofs, ...proven } = await provenBy(checkpoints, stored)
  return {
    format: EVIDENCE_FORMAT,
    made_at: new Date().toISOString(),
    ...about,
    events: stored.map((event, i) => storedEvent(event, proofs[i] ?? null)),
    omitted,
    ...proven,
  }
}

async function provenBy(
  checkpoints: LogCheckpoints | undefined,
  events: readonly RecordedEvent[],
): Promise<Proven> {
  if (checkpoints === undefined) return { proofs: [], checkpoint: null, unproven: UNSIGNED }
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const proofs: StoredEvent['proof'][] = []
    const notes = new Set<string>()
    for (const { position } of events) {
      const found = await checkpoints.inclusionProof(position)
      if (found === undefined) break
      proofs.push({ index: found.index, hashes: [...found.hashes] })
      notes.add(found.note)
    }
    const [note] = notes
    if (note === undefined || proofs.length < events.length) break
    if (notes.size === 1) return { proofs, checkpoint: note, unproven: null }
  }
  return { proofs: [], checkpoint: null, unproven: UNCOVERED }
}

/** The stores keep the JSON text, or parsed JSON that has the same text when it is written again. */
function storedEvent(event: RecordedEvent, proof: StoredEvent['proof']): StoredEvent {
  const { stream, revision, position, id, type } = event
  const [data, metadata] = [JSON.stringify(event.data), JSON.stringify(event.metadata)]
  return { stream, revision, position, id, type, data, metadata, proof }
}
