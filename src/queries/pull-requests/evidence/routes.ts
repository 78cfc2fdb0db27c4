/** `GET …/pulls/{index}/evidence`: why a pull request could be merged, as facts or as a document to keep. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { atLeast } from '../../../access/access.ts'
import { EvidenceWire } from '../../../api/pull-requests/evidence.ts'
import { onPull, PullParams } from '../../../api/pull-requests/pulls.ts'
import { canonicalJson } from '../../../domain/canonical-json.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { OptionalText } from '../../../http/requests/optional-text.ts'
import type { Services } from '../../../services/services.ts'
import { evidenceDocument } from './make-document.ts'
import { mergedEvidence, shownEvidence } from './merged-evidence.ts'

const DOCUMENT = 'document'
const DOCUMENT_TYPE = 'application/vnd.mergelog.evidence+json'

const EvidenceQuery = Type.Object({
  format: OptionalText(
    `\`${DOCUMENT}\`: canonical JSON with the recorded events and their proofs, which can be checked without the server; ` +
      'for admins of the repository',
  ),
})

const ANSWER = {
  200: {
    description: 'The facts of the merge, or the document',
    content: {
      'application/json': { schema: EvidenceWire },
      [DOCUMENT_TYPE]: { schema: Type.String() },
    },
  },
}

export function evidenceRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/evidence',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          querystring: EvidenceQuery,
          response: ANSWER,
          refusals: ['forbidden', 'unprocessable'],
        },
      },
      async (request, reply) => {
        const { format = '' } = request.query
        if (format !== '' && format !== DOCUMENT) {
          throw new Refused(refuse.unprocessable(`format: must be ${DOCUMENT}, or absent`))
        }
        const forDocument = format === DOCUMENT
        const { repository, access, pull } = await onPull(services, request, forDocument ? 'admin' : 'read')
        const found = await mergedEvidence(services, request, reply, pull, { forDocument })
        if (!forDocument) return shownEvidence(found, atLeast(access, 'admin'))
        const { evidence, facts, commits } = found
        const about = { repository: `${repository.ownerLogin}/${repository.name}`, facts, commits }
        const document = await evidenceDocument(services.checkpoints, evidence, about)
        reply.header('Content-Disposition', `attachment; filename="evidence-${pull.index}.json"`)
        return reply.type(DOCUMENT_TYPE).send(`${canonicalJson(document)}\n`)
      },
    )
  }
}
