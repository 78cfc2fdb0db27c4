import t from 'tap'
import { baseFor, basePath } from '../../../src/http/requests/base-path.ts'
import { startTestServer } from '../../start-server.ts'

t.test('a client of PUBLIC_URL is redirected to absolute URLs, and other clients to paths', async (t) => {
  t.equal(baseFor('git.example.org', 'https://git.example.org'), 'https://git.example.org')
  t.equal(baseFor('Git.Example.org:8443', 'https://git.example.org:8443/'), 'https://git.example.org:8443')
  t.equal(baseFor('git.example.org', 'https://git.example.org/code/'), 'https://git.example.org/code')
  t.equal(baseFor('mergelog:3000', 'https://git.example.org/code'), '/code')
  t.equal(baseFor('mergelog:3000', 'https://git.example.org'), '')
  t.equal(baseFor('127.0.0.1:3000', undefined), '')
  t.equal(basePath('http://127.0.0.1:3000'), '')
})

t.test("below a path of a proxy, the documentation has its files and the API's address there", async (t) => {
  const lines: string[] = []
  const log = { write: (line: string) => void lines.push(line) }
  await startTestServer(t, { PUBLIC_URL: 'https://example.org/code', LOG_LEVEL: 'info' }, log)
  const [, listening] = /Server listening at (http:[^"]+)/.exec(lines.join('')) ?? []
  // Like a request of a proxy that removes the path.
  const ask = (path: string) => fetch(`${listening}${path}`)
  const page = await (await ask('/api/docs')).text()
  const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path)
  t.ok(files.length > 0)
  for (const path of files) {
    t.match(path, /^\/code\/api\/docs\//)
    t.equal((await ask(path.slice('/code'.length))).status, 200, path)
  }
  const script = await (await ask('/api/docs/static/theme/mergelog.js')).text()
  t.match(script, 'bar.href = "/code/"', 'its name leads to the start page there')
  t.match(await (await ask('/api/openapi.json')).json(), { servers: [{ url: '/code' }] })
})
