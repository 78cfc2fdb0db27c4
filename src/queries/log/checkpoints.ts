/**
 * Signed checkpoints of the log, and proofs that it only grew: `GET /log/checkpoint`, `GET /log/proof`. Everybody may read
 * them: they tell only how many events there are.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { Refused, refuse } from '../../errors/refusal.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import type { LogCheckpoints, SignedCheckpoint } from '../../services/log-checkpoints.ts'
import type { Services } from '../../services/services.ts'

const NoteWire = {
  200: {
    description: 'The checkpoint as a signed note (c2sp.org/tlog-checkpoint)',
    content: { 'text/plain': { schema: Type.String() } },
  },
}

const ProofQuery = Type.Object({
  from: Type.String({ description: 'Size of the earlier log: the second line of its checkpoint' }),
  to: OptionalText('Size of the later log; that of the latest checkpoint by default'),
})

const ProofWire = Type.Object(
  {
    from: Type.Integer({ description: 'Number of events of the earlier log' }),
    to: Type.Integer({ description: 'Number of events of the later log' }),
    hashes: Type.Array(Type.String(), {
      description: 'The consistency proof of RFC 9162, each hash in base64',
    }),
  },
  { title: 'LogProof' },
)

/** @throws Refused (not found) without a key, or before the first checkpoint */
async function latestOf(
  checkpoints: LogCheckpoints | undefined,
): Promise<{ checkpoints: LogCheckpoints; latest: SignedCheckpoint }> {
  if (checkpoints === undefined) {
    throw new Refused(refuse.notFound('the log is not signed: LOG_SIGNING_KEY is not set'))
  }
  const latest = await checkpoints.latest()
  if (latest === undefined) throw new Refused(refuse.notFound('no checkpoint of the log is signed yet'))
  return { checkpoints, latest }
}

/** @throws Refused (unprocessable) unless it is a number from 1 to `most` */
function sizeOf(field: string, text: string, most: number): number {
  const size = /^\d{1,16}$/.test(text) ? Number(text) : 0
  if (size >= 1 && size <= most) return size
  throw new Refused(refuse.unprocessable(`${field}: must be a whole number from 1 to ${most}`))
}

export function logCheckpointRoutes({ checkpoints: all }: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    // An access token needs no scope for these.
    const open = { scope: [] } as const
    const tags = ['history']

    app.get(
      '/log/checkpoint',
      { config: open, schema: { tags, response: NoteWire, refusals: ['notFound'] } },
      async (_request, reply) => {
        const { latest } = await latestOf(all)
        return reply.type('text/plain; charset=utf-8').send(latest.note)
      },
    )

    app.get(
      '/log/proof',
      {
        config: open,
        schema: {
          tags,
          querystring: ProofQuery,
          response: { 200: ProofWire },
          refusals: ['notFound', 'unprocessable', 'unavailable'],
        },
      },
      async (request) => {
        const { checkpoints, latest } = await latestOf(all)
        const to = sizeOf('to', request.query.to ?? `${latest.size}`, latest.size)
        const from = sizeOf('from', request.query.from, to)
        const hashes = await checkpoints.consistencyProof(from, to)
        if (hashes === undefined) {
          throw new Refused(refuse.unavailable('the Merkle tree of the log is being built; try again later'))
        }
        return { from, to, hashes }
      },
    )
  }
}
