import t from 'tap'
import { startTestServer } from '../../../start-server.ts'

const REPO = '/api/v1/repos/alice/app'

t.test('a repository as it was', async (t) => {
  const server = await startTestServer(t)
  const json = async (login: string, method: string, path: string, body?: object) => {
    const answer = await server.fetch(login, path, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    if (answer.status >= 500) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return {
      status: answer.status,
      headers: answer.headers,
      body: answer.status === 204 ? null : await answer.json(),
    }
  }
  t.equal((await json('alice', 'POST', '/api/v1/user/repos', { name: 'app', auto_init: true })).status, 201)
  const first = await json('alice', 'POST', `${REPO}/issues`, { title: 'one' })
  t.equal(first.status, 201)
  const before = await json('alice', 'GET', `${REPO}/issues`)
  const position = await server.services.events.lastPosition()
  await json('alice', 'POST', `${REPO}/issues`, { title: 'two' })
  await json('alice', 'PATCH', `${REPO}/issues/1`, { title: 'renamed' })
  const past = await json('alice', 'GET', `${REPO}/issues?at=@${position}`)
  t.equal(past.status, 200)
  t.same(past.body, before.body)
  t.match(past.headers.get('mergelog-at'), /^@\d+ 20\d\d-/)
  console.log(past.headers.get('mergelog-at'), past.headers.get('access-control-expose-headers'))
  const now = await json('alice', 'GET', `${REPO}/issues`)
  t.match(now.body, [{ title: 'two' }, { title: 'renamed' }])
  for (let i = 0; i < 5; i++) {
    const b = performance.now()
    await json('alice', 'GET', `${REPO}/issues?at=@${position - i}`)
    console.log(performance.now() - b)
  }
  t.equal((await json('alice', 'GET', `${REPO}/issues?at=2020-01-01`)).status, 404)
  t.equal((await json('alice', 'GET', `${REPO}/issues?at=x`)).status, 422)
  t.equal((await json('alice', 'POST', `${REPO}/issues?at=@1`, { title: 'x' })).status, 422)
})
