/** The description of the API at `/api/openapi.json`, and the page at `/api/docs` that shows it. */
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { docsPage } from '../api/documentation/docs-page.ts'
import { documentation } from '../api/documentation/document.ts'
import { contentPolicy, pageHeaders } from '../http/answers/page-headers.ts'
import { canShowPast } from '../queries/history/moments/time-travel.ts'

/** `base` is the path of `PUBLIC_URL`. */
export async function serveApiDocs(app: FastifyInstance, base: string): Promise<void> {
  await app.register(swagger, documentation(base, canShowPast))
  await app.register(async (docs) => {
    // Swagger UI has its icons as data: URLs.
    const headers = pageHeaders(contentPolicy({ 'img-src': "'self' data:" }))
    docs.addHook('onSend', async (_request, reply) => void reply.headers(headers))
    await docs.register(swaggerUi, {
      routePrefix: '/api/docs',
      indexPrefix: base,
      ...(await docsPage(base)),
    })
  })
  app.get('/api/openapi.json', { schema: { hide: true } }, async () => app.swagger())
}
