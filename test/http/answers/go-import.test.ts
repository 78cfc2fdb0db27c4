import t from 'tap'
import { goImport } from '../../../src/http/answers/go-import.ts'
import { startTestServer } from '../../start-server.ts'

const asked = (url: string, method = 'GET') => goImport({ method, url }, 'https://git.example.org/base')

t.test('go get learns where the repository of a module or of a package in it is', async (t) => {
  const content = 'content="git.example.org/base/alice/app git https://git.example.org/base/alice/app.git"'
  for (const url of ['/alice/app?go-get=1', '/alice/app/some/package?go-get=1', '/alice/app/?x=1&go-get=1']) {
    t.match(asked(url), `<meta name="go-import" ${content}>`, url)
  }
})

t.test('other requests are not go get', async (t) => {
  for (const url of [
    '/alice/app',
    '/alice?go-get=1',
    '/alice/app?go-get=10',
    '/alice/a%22b?go-get=1',
    '/alice/app?x=go-get=1',
  ]) {
    t.equal(asked(url), undefined, url)
  }
  t.equal(asked('/alice/app?go-get=1', 'POST'), undefined)
})

t.test('a server answers go get the same for what is there and what is not, without a sign-in', async (t) => {
  const server = await startTestServer(t)
  const answer = await server.fetch(null, '/nobody/nothing/pkg?go-get=1')
  t.equal(answer.status, 200)
  t.match(answer.headers.get('content-type'), 'text/html')
  const { host, origin } = new URL(server.url)
  t.match(await answer.text(), `content="${host}/nobody/nothing git ${origin}/nobody/nothing.git"`)
  t.equal((await server.fetch(null, '/nobody/nothing/pkg')).status, 404)
})
