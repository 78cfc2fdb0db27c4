/** Serves the documentation of the API: `/api/docs` and `/api/openapi.json`. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { ERROR_COMPONENTS, withErrorAnswers } from '../http/answers/error-answers.ts'
import { contentPolicy, pageHeaders } from '../http/answers/page-headers.ts'
import { withOptionalBodies } from '../http/bodies/optional-bodies.ts'
import { operationIdOf } from '../http/requests/operations.ts'

/** `base`: the path of the public URL, or an empty text. */
export async function serveApiDocs(app: FastifyInstance, base: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      info: { title: 'Mergelog', version: '1', description: 'Gitea-compatible API of Mergelog' },
      servers: [{ url: base === '' ? '/' : base }],
      components: {
        schemas: ERROR_COMPONENTS,
        securitySchemes: {
          basic: { type: 'http', scheme: 'basic' },
          token: { type: 'http', scheme: 'bearer' },
        },
      },
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: schema && {
        operationId: operationIdOf(`${route.method}`, url),
        ...withErrorAnswers(schema, route.method),
      },
    }),
    transformObject: withOptionalBodies,
  })
  await app.register(async (docs) => {
    // Swagger UI has its icons as data: URLs.
    const headers = pageHeaders(contentPolicy({ 'img-src': "'self' data:" }))
    docs.addHook('onSend', async (_request, reply) => void reply.headers(headers))
    await docs.register(swaggerUi, {
      routePrefix: '/api/docs',
      indexPrefix: base,
      uiConfig: { deepLinking: true },
    })
  })
  app.get('/api/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}
