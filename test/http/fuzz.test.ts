/**
 * Bounded, seeded fuzz test of every operation in the API's documentation. Hostile requests derive from the valid ones in
 * the route table. `FUZZ_SEED` selects others; `FUZZ_COUNT` sets the number per operation.
 */
import { Agent, request } from 'node:http'
import t from 'tap'
import { startWorld } from '../auth/route-world.ts'
import { newLogSigner } from '../log-signer.ts'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { checksOf, type Operation, operationsOf, readDocumentation } from './documented.ts'
import { hostileRequests, type RawRequest, seedOf, usual } from './fuzz-requests.ts'
import { PASSWORD, targetsIn } from './operation-targets.ts'

const SEED = Number(process.env.FUZZ_SEED ?? 15)
const COUNT = Number(process.env.FUZZ_COUNT ?? 5)

const lines: string[] = []
const { settings: signing } = await newLogSigner(t.testdir({}))
const server = await startTestServer(
  t,
  {
    ...{ LOG_LEVEL: 'warn', MAX_BODY_BYTES: '64KiB', MAX_TEXT_CHARACTERS: '1000' },
    ...{ PROJECTION_WAIT_MS: '120000', ...signing },
  },
  { write: (line) => lines.push(line) },
)
const world = await startWorld(t, server)
const { checkpoints } = server.services
await until('the log is signed', async () => (await checkpoints?.latest()) !== undefined)
const documentation = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())
const { problemIn, allows } = checksOf(documentation)
const operations = operationsOf(documentation)

const targetOf = await targetsIn(world)

const agent = new Agent({ keepAlive: true, maxSockets: 1 })
t.teardown(() => agent.destroy())

interface Received {
  status: number
  type: string
  text: string
}

/** Sends a request unchanged. Resolves to the answer. */
function send(login: string, method: string, raw: Omit<RawRequest, 'what'>): Promise<Received> {
  const { path, headers, body } = raw
  const { hostname, port } = new URL(server.listensAt)
  const length = body === undefined ? {} : { 'content-length': body.length }
  return new Promise((resolve, reject) => {
    const asking = request(
      {
        hostname,
        port,
        path,
        agent,
        method: method.toUpperCase(),
        headers: { authorization: basic(login), ...length, ...headers },
      },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('error', reject)
        answer.on('end', () => {
          const type = answer.headers['content-type']?.split(';')[0] ?? ''
          resolve({ status: answer.statusCode ?? 0, type, text: Buffer.concat(chunks).toString() })
        })
      },
    )
    asking.on('error', (error) => {
      // The server may close an idle connection at the moment when the agent reuses it.
      if (asking.reusedSocket && 'code' in error && ['ECONNRESET', 'EPIPE'].includes(`${error.code}`)) {
        send(login, method, raw).then(resolve, reject)
      } else reject(error)
    })
    asking.end(body)
  })
}

const showing = (method: string, { path, headers, body }: RawRequest) =>
  `${method} ${path.slice(0, 200)} ${JSON.stringify(headers).slice(0, 200)} ${body?.toString('latin1').slice(0, 200) ?? ''}`

/** Whether the documented schema of the body or of the query forbids a request. */
function breaksSchema(operation: Operation, { json, repeated }: RawRequest): boolean {
  const body = operation.requestBody?.content['application/json']?.schema
  // An empty body counts as absent.
  if (json?.value !== undefined && body !== undefined && !allows(body, json.value)) return true
  const parameter = operation.parameters?.find((one) => one.in === 'query' && one.name === repeated?.name)
  return repeated !== undefined && parameter !== undefined && !allows(parameter.schema, repeated.values)
}

const HEALTH = 'get /healthz'
const healthy = async () => (await server.fetch(null, '/healthz')).status === 200

/** Describes why an answer is wrong; undefined for a correct answer. */
function problemOf(
  name: string,
  operation: Operation,
  odd: RawRequest,
  answer: Received,
): string | undefined {
  // On a slow machine the read models may lag by more than a second, which `/healthz` reports as 503.
  if (answer.status >= 500 && name !== HEALTH) return 'it is a failure'
  if (answer.status === 429) return 'it hides what the route would answer'
  // The server cannot decode the path, so no route is responsible.
  if (/[\x80-\xff]/.test(odd.path)) return problemIn(UNREADABLE, answer)
  if (answer.status < 300 && breaksSchema(operation, odd)) return 'the request is not allowed'
  return problemIn(operation, answer)
}

const json = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
const UNREADABLE: Pick<Operation, 'responses'> = { responses: { 400: { content: json } } }

t.test(
  `no 5xx, no answer that the document does not allow; after it a valid request succeeds as documented (seed ${SEED})`,
  async (t) => {
    const place = await world.place('public')
    const failures: string[] = []
    const statuses = new Map<number, number>()
    for (const { name, method, path, operation } of operations) {
      const changes = hostileRequests(path, operation, seedOf(SEED, name), COUNT)
      t.ok(changes.length >= Math.min(COUNT, 30), name)
      let target = await targetOf(name, place)
      let isUsed = false
      for (const change of changes) {
        // The user's old password stops working after a change.
        if (isUsed && name === PASSWORD) target = await targetOf(name, place)
        const odd = change({ path, call: target.call })
        const answer = await send(target.login, method, odd)
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        const problem = problemOf(name, operation, odd, answer)
        if (problem !== undefined) {
          failures.push(
            `${showing(method, odd)}, where ${odd.what}: ${answer.status} ${answer.text.slice(0, 200)}: ${problem}`,
          )
        }
        // A successful request may consume its target. Later requests may reach the remains.
        if (method !== 'get' && answer.status < 300) isUsed = true
      }
      if (isUsed) target = await targetOf(name, place)
      const valid = usual({ path, call: target.call })
      if (name === HEALTH) await until('the read models have caught up', healthy)
      const answer = await send(target.login, method, valid)
      t.match(String(answer.status), /^2/, `${showing(method, valid)}: ${answer.text.slice(0, 300)}`)
      t.equal(problemIn(operation, answer), undefined, name)
    }
    t.comment([...statuses].map(([status, count]) => `${status}: ${count}`).join(', '))
    t.strictSame(failures.slice(0, 20), [], `${failures.length} answers; FUZZ_SEED=${SEED}`)
  },
)

t.test('afterwards the server serves as before, and has logged no error', async (t) => {
  await until('the read models have caught up', healthy)
  t.equal((await server.fetch('alice', '/api/v1/repos/alice/public')).status, 200)
  const errors = lines.filter((line) => JSON.parse(line).level >= 50)
  t.strictSame(errors.slice(0, 5), [], `FUZZ_SEED=${SEED}`)
})
