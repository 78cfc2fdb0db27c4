/** `POST /admin/maintenance`: maintains repositories now and reports the progress line by line. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger } from 'fastify'
import { Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { siteAdmin } from '../../auth/requester.ts'
import { route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { NDJSON } from '../../http/answers/ndjson.ts'
import { sendStreamedText } from '../../http/answers/streamed-text.ts'
import type { Services } from '../../services/services.ts'
import { type MaintenanceProgress, maintainAll, repositoryByFullName } from '../git/maintain-all.ts'

const MaintenanceOption = Type.Object(
  {
    repository: Type.Optional(Type.String({ description: '`owner/repo`; all repositories when absent' })),
  },
  { title: 'MaintenanceOption' },
)

const ANSWER = {
  200: {
    description:
      'A line for each step of each repository: its full name, the step, how many repositories are done and how many ' +
      'there are; `bytes_before` and `bytes_after` with the last step of each. The last line is the outcome: ' +
      '`maintained` with the number of repositories, or `failed` with the reason. It ends when the client disconnects',
    content: { [NDJSON]: { schema: Type.String() } },
  },
}

const line = (content: object) => `${JSON.stringify(content)}\n`

export function maintenanceRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/admin/maintenance',
      {
        preValidation: async (request) => void siteAdmin(request, 'maintain repositories'),
        ...route('admin', { body: Nullable(MaintenanceOption), response: ANSWER }),
      },
      async (request, reply) => {
        const name = request.body?.repository ?? undefined
        const one = name === undefined ? undefined : await repositoryByFullName(services, name)
        if (name !== undefined && one === undefined)
          throw new Refused(refuse.notFound('repository not found'))
        const stopping = new AbortController()
        reply.raw.once('close', () => stopping.abort())
        const progress = () => linesOf(maintainAll(services, one, stopping.signal), request.log)
        sendStreamedText(request, reply, `${NDJSON}; charset=utf-8`, progress, services.live.ending)
        return reply
      },
    )
  }
}

/** Yields a line for each step, then the outcome. The outcome is missing when the server stops first. */
async function* linesOf(
  progress: AsyncIterable<MaintenanceProgress>,
  log: FastifyBaseLogger,
): AsyncGenerator<string> {
  let maintained = 0
  try {
    for await (const step of progress) {
      yield line(step)
      maintained = step.done
    }
    yield line({ maintained })
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') return
    log.error({ err: error }, 'a requested maintenance failed')
    yield line({ failed: error instanceof Error ? error.message : String(error) })
  }
}
