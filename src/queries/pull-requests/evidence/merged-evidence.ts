/** The evidence of a merged pull request, for routes and pages. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import {
  type EvidenceCommits,
  type EvidenceFacts,
  type EvidenceWire,
  readersEvidence,
} from '../../../api/pull-requests/evidence.ts'
import { timeSlices } from '../../../concurrency/event-loop.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { PullDocument } from '../../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../../services/services.ts'
import { replayClientOf } from '../../history/replay/replay-client.ts'
import { evidenceOf } from './evidence.fold.ts'
import { mergedCommits } from './merged-commits.ts'
import { type Evidence, readEvidence } from './read-evidence.ts'

const notMerged = refuse.notFound('the pull request is not merged, so there is no evidence of a merge')

export interface MergedEvidence {
  evidence: Evidence
  facts: EvidenceFacts
  commits: EvidenceCommits
}

/** Reads the evidence, for a request that may read the pull request. @throws Refused (not found) when it is not merged */
export async function mergedEvidence(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  pull: PullDocument,
  { forDocument }: { forDocument: boolean },
): Promise<MergedEvidence> {
  if (pull.merged === null) throw new Refused(notMerged)
  const [evidence, commits] = await Promise.all([
    readEvidence(services, pull, replayClientOf(request, reply), { forDocument }),
    mergedCommits(services, request, reply, pull),
  ])
  const facts = await factsIn(evidence)
  if (evidence === undefined || facts === undefined) throw new Refused(notMerged)
  return { evidence, facts, commits }
}

/** Returns the facts that follow from the events; undefined without a merge. */
export async function factsIn(evidence: Evidence | undefined): Promise<EvidenceFacts | undefined> {
  const events = evidence?.events.map(({ event }) => event) ?? []
  return await evidenceOf(events, timeSlices().pauseIfOver)
}

/** Returns what the requester may see. */
export function shownEvidence(
  { facts, commits }: MergedEvidence,
  isAdmin: boolean,
): Static<typeof EvidenceWire> {
  const shown = isAdmin ? { facts, hidden: [] } : readersEvidence(facts)
  return { ...shown.facts, commits, hidden: shown.hidden }
}
