/** Common rules of all request bodies, tried with each field of each body in the API's documentation. */
import t from 'tap'
import { type Method, startWorld } from '../auth/route-world.ts'
import { startTestServer } from '../start-server.ts'
import { operationsOf, readDocumentation } from './documented.ts'
import { type Target, targetsIn } from './operation-targets.ts'

interface Field {
  type?: string
  anyOf?: Field[]
  items?: Field
}
interface Body extends Field {
  properties?: Record<string, Field>
}

const server = await startTestServer(t)
const world = await startWorld(t, server)
const targetOf = await targetsIn(world)
const place = await world.place('public')
const documentation = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())

const schemasOf = (schema: Body): Body[] => schema.anyOf?.flatMap(schemasOf) ?? [schema]

const operations = operationsOf(documentation).flatMap(({ name, method, path, operation }) => {
  const schema: Body | undefined = operation.requestBody?.content['application/json']?.schema
  const fields = schema && schemasOf(schema).find(({ properties }) => properties)?.properties
  const route = path.replaceAll('{*}', '*').replaceAll(/\{(.+?)\}/g, ':$1')
  const isMethod = (given: string): given is Method => ['POST', 'PUT', 'PATCH', 'DELETE'].includes(given)
  const verb = method.toUpperCase()
  return fields && isMethod(verb) ? [{ name, verb, route, fields }] : []
})

/** Sends variants of a successful body, each to a target that no other has changed. */
function sender({ name, verb, route }: (typeof operations)[number]) {
  let target: Target | undefined
  return async (change: (body: object) => object) => {
    target ??= await targetOf(name, place)
    const { login, call } = target
    const body = change(typeof call.body === 'object' ? call.body : {})
    const answer = await world.send(login, verb, route, { ...call, body })
    if (answer.status < 300) target = undefined
    return answer
  }
}

t.test('api.fields.2: null means absent, everywhere', async (t) => {
  t.ok(operations.length > 60, `${operations.length} bodies`)
  for (const operation of operations) {
    const nulls = Object.fromEntries(Object.keys(operation.fields).map((name) => [name, null]))
    const { status, text } = await sender(operation)((body) => ({ ...nulls, ...body }))
    t.ok(status < 300, `${operation.name}: ${status} ${status < 300 ? '' : text}`)
  }
})

/** Line 36 makes these 422. */
const PULLS = 'post /api/v1/repos/{owner}/{repo}/pulls'
const ELSEWHERE = new Set([`${PULLS} head`, `${PULLS} base`])

/** Not of the type of a field. */
function wrongFor(field: Field): unknown {
  const types = schemasOf(field).map(({ type }) => type)
  return [7, 'x', {}].find((value) => {
    const type = typeof value
    return !types.includes(type) && !(type === 'number' && types.includes('integer'))
  })
}

t.test(
  'null, empty text, empty array and a wrong type: success, or 4xx with the name of the field',
  async (t) => {
    let asked = 0
    for (const operation of operations) {
      const send = sender(operation)
      for (const [name, field] of Object.entries(operation.fields)) {
        for (const value of [null, '', [], wrongFor(field)]) {
          asked += 1
          const { status, text } = await send((body) => ({ ...body, [name]: value }))
          if (status < 300 || ELSEWHERE.has(`${operation.name} ${name}`)) continue
          const { message, errors = [message] }: { message: string; errors?: string[] } = JSON.parse(text)
          const what = `${operation.name}: ${name} is ${JSON.stringify(value)}: ${status} ${errors}`
          if (status < 500 && errors.some((error) => error.includes(name))) continue
          // An absent field may also be reported as missing.
          const without = await send((body) => ({ ...body, [name]: undefined }))
          t.equal(without.status, value === null || value === '' ? status : undefined, what)
        }
      }
    }
    t.ok(asked > 1000, `${asked} bodies`)
  },
)
