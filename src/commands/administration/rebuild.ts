/** `POST /admin/rebuild`: rebuilds read models and reports its progress line by line. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger } from 'fastify'
import { Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { NDJSON } from '../../http/answers/ndjson.ts'
import { sendStreamedText } from '../../http/answers/streamed-text.ts'
import type { ReadModel } from '../../projections/projector/read-model.ts'
import { type RebuildProgress, RebuildUnderWay } from '../../projections/projector/rebuild.ts'
import { modelsNamed, UnknownReadModel } from '../../projections/views/views.ts'
import type { Services } from '../../services/services.ts'

const RebuildOption = Type.Object(
  {
    models: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Names of read models; all when empty or absent',
      }),
    ),
  },
  { title: 'RebuildOption' },
)

const ANSWER = {
  200: {
    description:
      'A line for each step: the model, the number of its events so far, their position in the log and the end of ' +
      'the log; `done` is true when queries read the new documents, and ' +
      '`lacks` then names parts of streams that the log has lost. The last line is the outcome: `rebuilt`, or ' +
      '`failed` with the reason. Without an outcome the server stopped before the end. The rebuild ends when the ' +
      'client disconnects: the model that was being rebuilt keeps its old documents',
    content: { [NDJSON]: { schema: Type.String() } },
  },
}

/** @throws Refused (unprocessable) for an unknown read model */
function modelsIn(names: readonly string[]): readonly ReadModel[] {
  try {
    return modelsNamed(names)
  } catch (error) {
    if (!(error instanceof UnknownReadModel)) throw error
    const problem = `models: ${error.message}`
    throw new Refused(refuse.unprocessable(problem, [problem]))
  }
}

export function rebuildRoutes({
  rebuilder,
  live,
}: {
  rebuilder: Services['rebuilder']
  live: Pick<Services['live'], 'ending'>
}): FastifyPluginAsyncTypebox {
  /** @throws Refused (conflict) when a rebuild cannot start */
  function requireFree(): void {
    try {
      rebuilder.requireFree()
    } catch (error) {
      const isRefusal = error instanceof RebuildUnderWay
      throw isRefusal ? new Refused(refuse.conflict(error.message)) : error
    }
  }

  return async (app) => {
    app.post(
      '/admin/rebuild',
      {
        preValidation: async (request) => void siteAdmin(request, 'rebuild read models'),
        ...route('admin', { body: Nullable(RebuildOption), response: ANSWER }),
      },
      async (request, reply) => {
        const models = modelsIn(request.body?.models ?? [])
        requireFree()
        const lines = () => linesOf(rebuilder.rebuild(models), request.log)
        sendStreamedText(request, reply, `${NDJSON}; charset=utf-8`, lines, live.ending)
        return reply
      },
    )
  }
}

/** Yields a line for each step, then the outcome. The outcome is missing when the server stops first. */
async function* linesOf(
  progress: AsyncIterable<RebuildProgress>,
  log: FastifyBaseLogger,
): AsyncGenerator<string> {
  const rebuilt: { model: string; events: number }[] = []
  try {
    for await (const step of progress) {
      yield line(step)
      if (step.done) rebuilt.push({ model: step.model, events: step.events })
    }
    yield line({ rebuilt })
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') return
    log.error({ err: error }, 'a rebuild failed')
    yield line({ failed: error instanceof Error ? error.message : String(error) })
  }
}

const line = (content: object) => `${JSON.stringify(content)}\n`
