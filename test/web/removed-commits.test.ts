/** Commits removed by a force push are visible on the page to writers only. */
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { until } from '../until.ts'

const pulls = await startPulls(t)
const { server } = pulls

t.test('the page shows commits removed by a force push only to writers', async (t) => {
  const repo = await pulls.repository(t, 'app', { writers: ['bob'] })
  const removed = await repo.branch('topic', { password: 'hunter2\n' })
  const index = await repo.open('topic')
  const page = `/ui/alice/app/pulls/${index}`
  const get = async (path: string, login: string | null) => {
    const answer = await server.fetch(login, `${page}${path}`)
    return { status: answer.status, text: await answer.text() }
  }
  t.match(await get('/diff?revision=0', null), { status: 200, text: 'hunter2' }, 'a branch has them')

  await repo.branch('topic', { password: 'none\n' })
  await until('the head has moved', async () => (await repo.get(index)).head?.sha !== removed)
  for (const login of [null, 'carol']) {
    t.match(await get('/diff?revision=0', login), { status: 404 })
    for (const path of ['?revision=0', '?revision=0&part=changes']) {
      const { status, text } = await get(path, login)
      t.equal(status, 200)
      t.match(text, 'No branch or tag has these commits any more')
      t.notMatch(text, 'hunter2')
      t.notMatch(text, 'Commit on topic')
    }
    t.match(await get('', login), { status: 200, text: 'none' }, 'what is there is shown')
    t.match(await get('/diff?revision=1', login), { status: 200, text: 'none' })
  }
  for (const login of ['alice', 'bob', 'admin']) {
    t.match(await get('/diff?revision=0', login), { status: 200, text: 'hunter2' })
    t.match(await get('?revision=0&part=changes', login), { status: 200, text: 'hunter2' })
  }
})

t.test('the page shows earlier commits that the branch still has to everyone', async (t) => {
  const repo = await pulls.repository(t, 'grown')
  await repo.branch('topic', { a: 'first\n' })
  const index = await repo.open('topic')
  const second = await repo.branch('topic', { b: 'second\n' }, 'topic')
  await until('the head has moved', async () => (await repo.get(index)).head?.sha === second)
  const answer = await server.fetch(null, `/ui/alice/grown/pulls/${index}/diff?revision=0`)
  t.equal(answer.status, 200)
  t.match(await answer.text(), 'first')
})
