import t from 'tap'
import { startPulls } from '../../commands/pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)

t.test('the pull request between two branches: the open one, else the newest', async (t) => {
  const { branch, open, fork } = await repository(t, 'app', { writers: [] })
  const between = async (login: string | null, path: string) => {
    const answer = await server.fetch(login, `/api/v1/repos/alice/app/pulls/${path}`)
    return { status: answer.status, body: JSON.parse(await answer.text()) }
  }
  await branch('feature/x', { x: 'x\n' })
  t.equal((await between('alice', 'main/feature/x')).status, 404)
  await open('feature/x')
  t.match(await between('alice', 'main/feature/x'), {
    status: 200,
    body: { number: 1, head: { ref: 'feature/x' } },
  })
  t.equal((await between('alice', 'main/feature%2Fx')).status, 200)
  t.equal((await between('alice', 'feature/x')).status, 404)
  const own = await fork('bob')
  await own.branch('idea', { idea: 'i\n' })
  await open('bob:idea', {}, 'bob')
  t.match(await between('alice', 'main/bob:idea'), { status: 200, body: { number: 2 } })
  t.equal((await between('alice', 'main/idea')).status, 404)
  t.equal((await between('alice', 'main/nobody:idea')).status, 404)
  const closed = await server.fetch('alice', '/api/v1/repos/alice/app/pulls/1', {
    method: 'PATCH',
    body: '{"state":"closed"}',
  })
  t.equal(closed.status, 201)
  t.match(await between('alice', 'main/feature/x'), { body: { number: 1, state: 'closed' } })
})
