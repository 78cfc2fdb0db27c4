/** JSON bodies are limited in values and in depth, and long ones do not block the event loop. */
import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { jsonParser, parseJsonBodies } from '../../../src/http/bodies/json-bodies.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

const app = Fastify({ logger: false, bodyLimit: 8 * 2 ** 20 })
registerErrors(app, () => '')
parseJsonBodies(app)
app.post('/', async ({ body }) => ({ body }))
app.post('/more', { config: { maxBodyValues: 20_000 } }, async () => ({}))
t.teardown(() => app.close())

const post = (payload: string, url = '/') => app.inject({ method: 'POST', url, headers: JSON_TYPE, payload })

t.test('a body with very many values gives 413, before it is parsed', async (t) => {
  const many: Record<string, (count: number) => string> = {
    'fields with different names': (count) =>
      `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`,
    'the same field': (count) => `{${Array.from({ length: count }, () => '"title":""').join(',')}}`,
    numbers: (count) => `{"labels":[${Array.from({ length: count }, () => '1').join(',')}]}`,
    'empty objects': (count) => `[${Array.from({ length: count }, () => '{}').join(' ,\n ')}]`,
    'what is no JSON': (count) => ','.repeat(count),
  }
  for (const [name, bodyOf] of Object.entries(many)) {
    const answer = await post(bodyOf(12_000))
    t.equal(answer.statusCode, 413, name)
    t.match(answer.json(), { message: 'the body has more than 10000 values' }, name)
    t.equal((await post(bodyOf(400_000))).statusCode, 413, name)
  }
  t.equal((await post(many.numbers?.(9000) ?? '')).statusCode, 200)
  t.equal((await post(many.numbers?.(12_000) ?? '', '/more')).statusCode, 200, 'a route that needs more')
  t.equal((await post(many.numbers?.(22_000) ?? '', '/more')).statusCode, 413)
})

t.test('values inside texts do not count, at any chunk boundaries', async (t) => {
  const texts = ['[{,'.repeat(50_000), '\\"[,{'.repeat(20_000), '\\'.repeat(200_000), 'é€😀,"'.repeat(60_000)]
  for (let shift = 0; shift < 9; shift++) {
    for (const text of texts) {
      const body = { text: `${'x'.repeat(shift)}${text}`, after: [1] }
      const answer = await post(JSON.stringify(body))
      t.equal(answer.statusCode, 200)
      t.ok(answer.json().body.text === body.text && answer.json().body.after.length === 1)
    }
  }
  const deep = `${'['.repeat(40)}${']'.repeat(40)}`
  t.equal((await post(`{"text":"${'\\\\'.repeat(200_000)}","deep":${deep}}`)).statusCode, 400)
  t.equal((await post('{"text":"\\"')).statusCode, 400, 'JSON that breaks off')
})

t.test('reading a long body does not block the event loop', async (t) => {
  const loop = Fastify({ logger: false, bodyLimit: 8 * 2 ** 20 })
  t.teardown(() => loop.close())
  const parse = jsonParser(loop)
  let turns = 0
  loop.removeContentTypeParser('application/json')
  loop.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    turns = 0
    const turn = () => {
      turns += 1
      counting = setImmediate(turn)
    }
    let counting = setImmediate(turn)
    parse(request, Buffer.from(body), (error, value) => {
      clearImmediate(counting)
      done(error, value)
    })
  })
  loop.post('/', async () => ({ turns }))
  const turnsOf = async (payload: string) =>
    (await loop.inject({ method: 'POST', url: '/', headers: JSON_TYPE, payload })).json().turns
  t.equal(await turnsOf('{"title":"short"}'), 0)
  // The number of slices in an iteration depends on the machine.
  const turnsOfLong = await turnsOf(JSON.stringify({ title: 'x'.repeat(4 * 2 ** 20) }))
  t.ok(turnsOfLong >= 4, `${turnsOfLong} turns`)
})
