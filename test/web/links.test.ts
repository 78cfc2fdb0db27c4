/** Addresses of Gitea's pages: every link works. */
import t from 'tap'
import { targetOf } from '../../src/web/links.ts'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)
const app = await repository(t, 'app', { writers: ['bob'] })
await app.commit('Code', { 'src/a b.txt': 'text\n' })
await app.push('main')
await app.branch('feature/one', { 'b.txt': 'text\n' })
await app.push('feature/one')
const index = await app.open('feature/one')
await repository(t, 'hidden')
const hide = { method: 'PATCH', body: JSON.stringify({ private: true }) }
t.equal((await server.fetch('alice', '/api/v1/repos/alice/hidden', hide)).status, 200)

const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }

async function get(path: string, login: string | null = null, headers: Record<string, string> = {}) {
  const answer = await server.fetch(login, path, { headers })
  return {
    status: answer.status,
    path: answer.url.slice(server.url.length),
    type: answer.headers.get('content-type')?.split(';')[0],
    headers: answer.headers,
    text: await answer.text(),
  }
}

t.test('the address of a pull request leads to its page, with and without a slash at the end', async (t) => {
  for (const end of ['', '/', '/files', '/commits']) {
    const page = { status: 200, path: `/ui/alice/app/pulls/${index}`, type: 'text/html' }
    t.match(await get(`/alice/app/pulls/${index}${end}`), page, end)
  }
  t.match(await get(`/alice/app/pulls/${index}?revision=1`), { path: /\?revision=1$/ }, 'with its moment')
})

t.test('….diff and ….patch of a pull request are text', async (t) => {
  t.match(await get(`/alice/app/pulls/${index}.diff`), {
    status: 200,
    type: 'text/plain',
    text: /^diff --git/,
  })
  t.match(await get(`/alice/app/pulls/${index}.patch`), { status: 200, type: 'text/plain', text: /^From / })
})

t.test('files and directories of a branch with a slash in its name', async (t) => {
  t.match(await get('/alice/app/src/branch/feature/one/src/a%20b.txt'), {
    status: 200,
    path: '/alice/app/raw/branch/feature/one/src/a%20b.txt',
    text: 'text\n',
  })
  for (const directory of ['', '/src']) {
    const { status, path } = await get(`/alice/app/src/branch/feature/one${directory}`)
    t.match({ status, path }, { status: 200, path: /^\/api\/v1\/repos\/alice\/app\/contents/ })
  }
  t.match(await get('/alice/app/src/branch/none/a.txt'), { status: 404 })
})

t.test('an address without a page leads to the nearest existing resource', async (t) => {
  for (const [page, place] of [
    ['/alice', '/api/v1/users/alice'],
    ['/alice/app', '/api/v1/repos/alice/app'],
    ['/alice/app/', '/api/v1/repos/alice/app'],
    [`/alice/app/issues/${index}`, `/api/v1/repos/alice/app/issues/${index}`],
    ['/alice/app/pulls?state=closed', '/api/v1/repos/alice/app/pulls?state=closed'],
    ['/alice/app/compare/main...feature/one', '/api/v1/repos/alice/app/compare/main...feature/one'],
    ['/favicon.ico', '/ui/assets/icon.svg'],
    ['/api/v1', '/api/docs'],
  ] as const) {
    t.match(await get(page), { status: 200, path: place }, page)
  }
  t.match(await get('/robots.txt'), { status: 200, type: 'text/plain', text: /^User-agent: \*\n/ })
  const post = await server.fetch('alice', '/alice/app', { method: 'POST', redirect: 'manual' })
  t.equal(post.status, 404, 'only what is read leads elsewhere')
})

t.test('a long path of slashes has no page', async (t) => {
  const slashes = '/'.repeat(10_000)
  t.equal(targetOf(`/alice/app${slashes}`), '/api/v1/repos/alice/app')
  t.equal(targetOf(`/alice${slashes}x`), undefined)
  t.equal(targetOf(slashes), undefined)
})

t.test('an address does not reveal existing repositories', async (t) => {
  for (const rest of ['', '/pulls/1', '/issues/1', '/src/branch/main/a.txt', '/pulls/1.diff']) {
    const [first, second] = await Promise.all([get(`/alice/hidden${rest}`), get(`/alice/nothing${rest}`)])
    t.equal(first.status, second.status, rest)
    t.ok(first.status >= 400)
    t.equal(first.text.replaceAll('hidden', 'nothing'), second.text.replaceAll('hidden', 'nothing'))
  }
})

t.test('the first page has the readable repositories, sign-in and documentation', async (t) => {
  const anonymous = await get('/')
  t.match(anonymous, { status: 200, type: 'text/html' })
  t.match(anonymous.text, 'href="/alice/app"')
  t.notMatch(anonymous.text, 'alice/hidden')
  t.match(anonymous.text, 'href="/user/login"')
  t.match(anonymous.text, 'href="/api/docs"')
  t.match((await get('/', 'alice')).text, 'href="/alice/hidden"')
  t.notMatch((await get('/', 'carol')).text, 'alice/hidden')
  t.match(await get('/?page=2'), { status: 200, text: /There are no repositories/ })
  t.match(await get('/?limit=1', 'alice'), { status: 200, text: /Next →/ })

  const asked = await get('/?sign_in=password')
  t.equal(asked.status, 401)
  t.match(asked.headers.get('www-authenticate'), /^Basic /)
  t.match(await get('/?sign_in=password', 'alice'), { status: 200, path: '/', text: /You are <bdi>alice/ })
})

t.test('a browser gets errors as a page, and other clients get JSON', async (t) => {
  for (const path of ['/nothing/at/all', '/api/v1/repos/alice/nothing', '/alice/nothing/issues/1']) {
    const page = await get(path, 'carol', BROWSER)
    t.match(page, { status: 404, type: 'text/html', text: /<h1>404<\/h1>/ }, path)
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'/)
    const json = await get(path, 'carol')
    t.match(json, { status: 404, type: 'application/json' }, path)
  }
  t.match(await get('/api/v1/user', null, BROWSER), { status: 401, type: 'text/html' })
})
