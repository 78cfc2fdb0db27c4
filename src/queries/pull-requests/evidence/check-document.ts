/** Checks the document of a merge's evidence without the server: `evidence.4`. */
import { isDeepStrictEqual } from 'node:util'
import type { EvidenceDocument, StoredEvent } from '../../../api/pull-requests/evidence-document.ts'
import { canonicalJson } from '../../../domain/canonical-json.ts'
import { originProblem, parseCheckpoint } from '../../../domain/transparency/checkpoint.ts'
import { verifyInclusion } from '../../../domain/transparency/merkle-tree.ts'
import { parseNote, signatureProblem, type VerifierKey } from '../../../domain/transparency/signed-note.ts'
import { decode, UnreadableEvent } from '../../../events/codec.ts'
import type { DomainEvent, Recorded } from '../../../events/domain-events.ts'
import { withoutTexts } from '../../../events/sealing/sealed-texts.ts'
import { hashOf, leafOf } from '../../../events/store/chain.ts'
import { isEventMetadata, type RecordedEvent } from '../../../events/store/event-store.ts'
import { checksStream, gitStream, pullStream, repositoryStream } from '../../../events/streams.ts'
import { verdictsOf } from '../../../projections/models/reviews/review-facts.ts'
import { type Merge, mergeIn } from './decided-merge.fold.ts'
import { evidenceOf } from './evidence.fold.ts'

/** The document is not genuine, or nothing proves it. */
class Wrong extends Error {}

/** Returns why a document is not genuine; undefined when it is. With a key, the key must have signed its checkpoint. */
export async function documentProblem(
  document: EvidenceDocument,
  key: VerifierKey | undefined,
): Promise<string | undefined> {
  try {
    const events = document.events.map(recordedOf)
    for (const event of events) requireHash(event)
    const decoded = events.map((event) => decode(withoutTexts(event)))
    requireOrder(document.events)
    requireStreams(document, decoded)
    requireProofs(document, events, key)
    const facts = await evidenceOf(decoded, async () => {})
    if (canonicalJson(facts) !== canonicalJson(document.facts)) {
      throw new Wrong('its facts do not follow from its events')
    }
    return undefined
  } catch (error) {
    if (error instanceof Wrong || error instanceof UnreadableEvent) return error.message
    throw error
  }
}

const nameOf = ({ stream, revision }: { stream: string; revision: number }) =>
  `event ${revision} of stream ${stream}`

function recordedOf({ proof: _, ...event }: StoredEvent): RecordedEvent {
  const [data, metadata] = [parsed(event.data), parsed(event.metadata)]
  if (typeof data !== 'object' || data === null || !isEventMetadata(metadata)) {
    throw new Wrong(`${nameOf(event)} is malformed`)
  }
  return { ...event, data, metadata, text: { data: event.data, metadata: event.metadata } }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function requireHash(event: RecordedEvent): void {
  const { hash } = event.metadata
  if (hash === undefined) throw new Wrong(`${nameOf(event)} carries no hash`)
  if (hash !== hashOf(event)) throw new Wrong(`${nameOf(event)} was changed: its hash does not match`)
}

/**
 * Requires that the events are in the order of the log, because the facts depend on it. Positions are not part of the hashes,
 * so the revisions and the proven indexes must agree with them.
 */
function requireOrder(events: readonly StoredEvent[]): void {
  const revisions = new Map<string, number>()
  let last: StoredEvent | undefined
  for (const event of events) {
    const { stream, revision, position, proof } = event
    const isLater =
      revision > (revisions.get(stream) ?? -1) &&
      (last === undefined || position > last.position) &&
      (!proof || !last?.proof || proof.index > last.proof.index)
    if (!isLater) throw new Wrong(`${nameOf(event)} is not in the order of the log`)
    revisions.set(stream, revision)
    last = event
  }
}

/** Requires that all events belong to the merge, and that the stream of the pull request is complete up to it. */
function requireStreams({ omitted }: EvidenceDocument, events: readonly Recorded<DomainEvent>[]): void {
  const merge = mergeIn(events)
  if (merge === undefined) throw new Wrong('it has no event of a merge')
  requireDecided(merge)
  const { merged } = merge
  const { repoId, index, head } = merged.data
  const own = pullStream(repoId, index)
  const streams = new Set([own, repositoryStream(repoId), gitStream(repoId), checksStream(repoId, head)])
  const foreign = events.find(({ stream }) => !streams.has(stream))
  if (foreign !== undefined) throw new Wrong(`${nameOf(foreign)} does not belong to the merge`)

  const links = new Map(omitted.map(({ revision, hash }) => [revision, { hash, previous: undefined }]))
  const all = new Map<number, { hash: string | undefined; previous: string | null | undefined }>(links)
  for (const { stream, revision, metadata } of events) {
    if (stream === own) all.set(revision, { hash: metadata.hash, previous: metadata.previous })
  }
  let last: string | null = null
  for (let revision = 0; revision <= merged.revision; revision++) {
    const link = all.get(revision)
    const name = nameOf({ stream: own, revision })
    if (link?.hash === undefined) throw new Wrong(`${name} is missing`)
    if (link.previous !== undefined && link.previous !== last) {
      throw new Wrong(`${name} does not follow the event before it`)
    }
    last = link.hash
  }
}

/**
 * Requires that no event is left out on which the decision depends: reviews, dismissals, and moves of the head. The decision
 * is part of the merge's event.
 */
function requireDecided({ pull, decided, merged }: Merge): void {
  const { decision } = decided.data
  if (pull.head.sha !== merged.data.head) throw new Wrong('it lacks a move of the head')
  if (decision === undefined || isDeepStrictEqual(verdictsOf(pull.reviews), decision.reviews)) return
  throw new Wrong('its reviews are not those of the decision')
}

/** Requires that the checkpoint covers all events, and that the key has signed it. */
function requireProofs(
  { checkpoint: text, unproven, events: stored }: EvidenceDocument,
  events: readonly RecordedEvent[],
  key: VerifierKey | undefined,
): void {
  if (text === null) {
    if (key !== undefined) throw new Wrong(`it has no checkpoint: ${unproven ?? 'it gives no reason'}`)
    return
  }
  const note = parseNote(text)
  const checkpoint = note && parseCheckpoint(note.text)
  if (note === undefined || checkpoint === undefined) throw new Wrong('its checkpoint is malformed')
  const problem = key && (signatureProblem(note, key) ?? originProblem(checkpoint, key))
  if (problem !== undefined) throw new Wrong(`its checkpoint is not genuine: ${problem}`)
  for (const [i, event] of events.entries()) {
    const proof = stored[i]?.proof
    const hashes = proof?.hashes.map((hash) => Buffer.from(hash, 'base64')) ?? []
    const { size, root } = checkpoint
    if (!proof || !verifyInclusion(leafOf(event), { index: proof.index, size, hashes, root })) {
      throw new Wrong(`${nameOf(event)} is not in the log of its checkpoint: the proof does not match`)
    }
  }
}
