/** `GET …/pulls/{index}/evidence`: why a pull request could be merged. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { atLeast } from '../../../access/access.ts'
import { type EvidenceFacts, EvidenceWire, readersEvidence } from '../../../api/pull-requests/evidence.ts'
import { onPull, PullParams } from '../../../api/pull-requests/pulls.ts'
import { timeSlices } from '../../../concurrency/event-loop.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { Services } from '../../../services/services.ts'
import { replayClientOf } from '../../history/replay/replay-client.ts'
import { evidenceOf } from './evidence.fold.ts'
import { mergedCommits } from './merged-commits.ts'
import { type EvidenceEvent, readEvidence } from './read-evidence.ts'

const notMerged = refuse.notFound('the pull request is not merged, so there is no evidence of a merge')

/** Returns the facts that follow from the events. @throws Refused (not found) when the pull request is not merged */
export async function factsOf(events: readonly EvidenceEvent[] | undefined): Promise<EvidenceFacts> {
  const decoded = events?.map(({ event }) => event) ?? []
  const facts = await evidenceOf(decoded, timeSlices().pauseIfOver)
  if (facts === undefined) throw new Refused(notMerged)
  return facts
}

export function evidenceRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/evidence',
      { schema: { tags: ['repository'], params: PullParams, response: { 200: EvidenceWire } } },
      async (request, reply) => {
        const { access, pull } = await onPull(services, request, 'read')
        if (pull.merged === null) throw new Refused(notMerged)
        const [events, commits] = await Promise.all([
          readEvidence(services, pull, replayClientOf(request, reply), { texts: false }),
          mergedCommits(services, request, reply, pull),
        ])
        const facts = await factsOf(events)
        const shown = atLeast(access, 'admin') ? { facts, hidden: [] } : readersEvidence(facts)
        return { ...shown.facts, commits, hidden: shown.hidden }
      },
    )
  }
}
