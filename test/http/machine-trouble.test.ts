import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../src/http/answers/errors.ts'

t.test('api.errors.2: a host failure is answered with 503, and a bug with 500', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  registerErrors(app, () => '')
  const refused = Object.assign(new Error('EMFILE: too many open files'), {
    code: 'EMFILE',
    syscall: 'open',
  })
  app.get('/refused', async () => {
    throw new Error('a file was not read', { cause: refused })
  })
  app.get('/mistake', async () => {
    throw new Error('a mistake')
  })
  const answer = await app.inject('/refused')
  t.equal(answer.statusCode, 503)
  t.notMatch(answer.body, 'EMFILE', 'what it lacks is for the log')
  const failed = await app.inject('/mistake')
  t.equal(failed.statusCode, 500)
  t.notMatch(failed.body, 'a mistake', 'internals are for the log')
})
