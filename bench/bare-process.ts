/** The ceiling of every read: a fastify route that has its answer and does nothing else. */
import Fastify from 'fastify'
import { serveParent } from './child.ts'

export interface BareReady {
  url: string
}

export interface BareQuestion {
  body: object
}

let body: object = {}
const app = Fastify()
app.get('/', async () => body)
const url = await app.listen({ host: '127.0.0.1', port: 0 })
const ready: BareReady = { url }

await serveParent(
  ready,
  async (question: BareQuestion) => {
    body = question.body
    return {}
  },
  () => app.close(),
)
