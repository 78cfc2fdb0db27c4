/** The pages at Gitea's addresses: content, statuses, escaping, paging. Browsers get them; programs get what they had. */
import { once } from 'node:events'
import { rename } from 'node:fs/promises'
import { request } from 'node:http'
import t from 'tap'
import { HOSTILE, startSampleRepository } from './sample-repository.ts'

const { server, file, tip, pages, pull } = await startSampleRepository(t)
const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }
const REPO = '/alice/greetings'

async function get(path: string, login: string | null = null, init: RequestInit = {}) {
  const answer = await server.fetch(login, path, { headers: BROWSER, redirect: 'manual', ...init })
  return {
    status: answer.status,
    headers: answer.headers,
    location: answer.headers.get('location'),
    text: (await answer.text()).replaceAll('&#61;', '='),
  }
}

const escaped = HOSTILE.replaceAll('<', '&#60;').replaceAll('>', '&#62;').replaceAll('"', '&#34;')

t.test('every page is HTML with a strict policy, landmarks and nothing inline; HEAD works', async (t) => {
  for (const path of pages) {
    const { status, headers, text } = await get(path)
    t.equal(status, 200, path)
    t.equal(headers.get('content-type'), 'text/html; charset=utf-8', path)
    t.match(
      headers.get('content-security-policy'),
      /^default-src 'none'; script-src 'self'; style-src 'self'/,
    )
    t.match(headers.get('cache-control'), /^(?:private, no-|no-store)/, path)
    t.match(text, /<header class="bar">[\s\S]*<main id="content"[\s\S]*<h1[\s\S]*<\/main>\n<footer/, path)
    t.notMatch(text, /<script(?! type="module")|\sstyle=|<[^>]*\son[a-z]+=/i, path)
    const head = await get(path, null, { method: 'HEAD' })
    t.match({ ...head }, { status: 200, text: '' }, path)
  }
})

t.test('programs get from these paths what they got without the pages', async (t) => {
  for (const [path, place] of [
    ['/alice', '/api/v1/users/alice'],
    [REPO, `/api/v1/repos${REPO}`],
    [`${REPO}/issues`, `/api/v1/repos${REPO}/issues`],
    [`${REPO}/pulls?state=all`, `/api/v1/repos${REPO}/pulls?state=all`],
    [`${REPO}/issues/1`, `/api/v1/repos${REPO}/issues/1`],
    [`${REPO}/commit/${tip}`, `/api/v1/repos${REPO}/git/commits/${tip}`],
    [`${REPO}/releases/tag/v1.0`, `/api/v1/repos${REPO}/releases/tags/v1.0`],
    [`${REPO}/milestone/1`, `/api/v1/repos${REPO}/milestones/1`],
    [`${REPO}/src/branch/main/src/greet.js`, `${REPO}/raw/branch/main/src/greet.js`],
  ] as const) {
    for (const accept of ['*/*', 'application/json']) {
      const { status, location } = await get(path, null, { headers: { accept } })
      t.match({ status, location }, { status: 302, location: place }, `${path} ${accept}`)
    }
  }
  for (const path of ['/api', '/api/v1', '/api/v1/']) {
    t.match(await get(path), { status: 302, location: '/api/docs' }, `${path} in a browser`)
  }
  t.match(await get('/favicon.ico'), { status: 302, location: '/ui/assets/icon.svg' })
  const { text } = await get(`${REPO}?go-get=1`)
  t.match(text, 'name="go-import"', 'also where the client of Go accepts HTML')
  t.match(await get(`${REPO}.git/info/refs?service=git-upload-pack`), {
    status: 200,
    text: 'git-upload-pack',
  })
  t.match(await get(`${REPO}.git`), { status: 302, location: REPO })
  const post = await server.fetch('alice', REPO, { method: 'POST', headers: BROWSER, redirect: 'manual' })
  t.equal(post.status, 404)
})

t.test('an address with .git leads to a page of this server', async (t) => {
  // `fetch` would normalize the paths.
  const { hostname, port } = new URL(server.listensAt)
  const rawGet = async (path: string) => {
    const sent = request({ hostname, port, path, headers: BROWSER }).end()
    const [answer] = await once(sent, 'response')
    answer.resume()
    return { status: answer.statusCode, location: answer.headers.location }
  }
  for (const path of ['//evil.example.git', '//evil.example.git/', '///evil.example/x.git']) {
    t.match(await rawGet(path), { status: 404, location: undefined }, path)
  }
  t.match(await rawGet('/\\evil.example/x.git'), { status: 302, location: '/%5Cevil.example/x' })
  t.match(await rawGet('/%2Fevil.example/x.git'), { status: 302, location: '/%2Fevil.example/x' })
})

t.test('a private repository answers like a missing one, and an anonymous reader may sign in', async (t) => {
  for (const part of ['', '/issues', '/pulls', '/src/branch/main', '/commits/branch/main', '/releases']) {
    for (const login of [null, 'dave']) {
      const [secret, missing] = await Promise.all([
        get(`/alice/secret${part}`, login),
        get(`/alice/nothing${part}`, login),
      ])
      t.equal(secret.status, 404, `${part} ${login}`)
      t.equal(secret.text.replaceAll('secret', 'nothing'), missing.text)
      t.equal(secret.text.includes('href="/user/login">Sign in'), login === null)
    }
    const { status, headers } = await get(`/alice/secret${part}`, 'alice')
    t.equal(status, 200, part)
    t.equal(headers.get('cache-control'), 'private, no-store')
  }
  t.notMatch((await get('/')).text, 'alice/secret')
  t.notMatch((await get('/alice')).text, 'alice/secret')
  t.match((await get('/alice', 'alice')).text, 'href="/alice/secret"')
})

t.test('what is not there answers 404, and a wrong filter 422, as pages', async (t) => {
  for (const path of [
    '/nobody',
    `${REPO}/issues/999`,
    `${REPO}/issues/x`,
    `${REPO}/src/branch/none`,
    `${REPO}/src/branch/main/none.txt`,
    `${REPO}/src/other/main`,
    `${REPO}/commits/tag/none`,
    `${REPO}/commit/${'0'.repeat(40)}`,
    `${REPO}/releases/tag/none`,
  ]) {
    t.match(await get(path), { status: 404, text: /<h1>404<\/h1>/ }, path)
  }
  t.match(await get(`${REPO}/pulls?labels=bug`), { status: 422, text: 'Labels: must be ids of labels' })
  t.match(await get(`${REPO}/issues?since=x`), { status: 422 })
  for (const path of ['%00', 'a%00b', 'a//b', 'x'.repeat(4097)]) {
    t.match(await get(`${REPO}/commits/branch/main/${path}`), { status: 422 }, path)
  }
})

t.test('names, titles, messages and texts never become markup', async (t) => {
  for (const path of [
    '/',
    '/alice',
    REPO,
    `${REPO}/issues`,
    `${REPO}/issues/1`,
    `${REPO}/commits/branch/main`,
    `${REPO}/releases`,
    `${REPO}/labels`,
    file('src'),
    file('src/a%20%3Cb%3E%20&%20%22c%22.txt'),
    `${REPO}/issues?q=${encodeURIComponent('"><script>')}`,
  ]) {
    const { status, text } = await get(path)
    t.equal(status, 200, path)
    t.notMatch(text, /<script>|onload="/, path)
  }
  t.match((await get(`${REPO}/issues`)).text, `Worse name ${escaped}`)
  t.match((await get(file('src'))).text, 'a &#60;b&#62; &#38; &#34;c&#34;.txt')
})

t.test(
  'the first page of a repository has README, tree, refs, clone address and the latest commit',
  async (t) => {
    const { text } = await get(REPO)
    t.match(text, '<h1>Greetings</h1>')
    t.match(text, `href="${file('notes/guide.md')}" rel="nofollow">the guide`)
    t.match(text, 'src="/alice/greetings/raw/branch/main/logo.png"')
    t.match(
      text,
      '<a href="https://img.example/badge.svg" rel="nofollow">foreign</a>',
      'no image of another host',
    )
    t.match(text, '<a href="https://ci.example/" rel="nofollow">badge</a>')
    t.match(text, '<th align="right">word</th>')
    t.match(text, `href="${file('src')}"`)
    t.match(text, 'href="/alice/greetings/src/branch/topic/one"')
    t.match(text, 'href="/alice/greetings/src/tag/v1/first"')
    t.match(text, `${server.url}/alice/greetings.git`)
    t.match(text, `href="/alice/greetings/commit/${tip}"`)
    t.match((await get('/alice/blank')).text, 'git remote add origin')
  },
)

t.test('files: lines with numbers and pages, images, binary files, Markdown and its source', async (t) => {
  t.match(
    (await get(file('src/greet.js'))).text,
    '<td class="n"><a href="#L1">1</a></td><td class="code"><span class="hljs-keyword">export</span>',
  )
  const long = (await get(file('long.txt?page=2'))).text
  t.match(long, 'id="L2001"')
  t.notMatch(long, 'id="L2000"')
  t.match(long, 'Page 2 of 3')
  t.match(long, `href="${file('long.txt?page=3')}" rel="next"`)
  t.match((await get(file('logo.png'))).text, `<img class="picture" src="${REPO}/raw/branch/main/logo.png"`)
  t.match((await get(file('data.bin'))).text, 'Download 4 bytes')
  t.match((await get(file('empty.txt'))).text, 'This file is empty')
  t.match((await get(file('notes/guide.md'))).text, `href="${file('README.md')}" rel="nofollow">home`)
  t.match((await get(file('notes/guide.md?display=source'))).text, '# Guide')
  t.match((await get(`${REPO}/src/branch/topic/one/src/greet.js`)).text, 'Hi')
  t.match((await get(`${REPO}/src/commit/${tip}/src`)).text, `${REPO}/src/commit/${tip}/src/greet.js`)
  t.match((await get(`${REPO}/src/tag/v1/first`)).text, 'README.md')
})

t.test('commits: pages, one of a path, a diff, and its texts', async (t) => {
  const all = (await get(`${REPO}/commits/branch/main?limit=2`)).text
  t.match(all, 'Page 1 of 3')
  t.match(all, 'limit=2&#38;page=2" rel="next"')
  t.match((await get(`${REPO}/commits/branch/main/src/greet.js`)).text, '1 commit<')
  const { text } = await get(`${REPO}/commit/main`)
  t.match(text, 'Add long.txt')
  t.match(text, 'line 1')
  for (const kind of ['diff', 'patch']) {
    t.match(await get(`${REPO}/commit/${tip}.${kind}`), {
      status: 302,
      location: `/api/v1/repos${REPO}/git/commits/${tip}.${kind}`,
    })
  }
})

t.test(
  'lists of issues and pull requests have the filters, the search, the order and the pages of the API',
  async (t) => {
    const titles = async (query: string, kind = 'issues') => {
      const { text } = await get(`${REPO}/${kind}?${query}`)
      return [...text.matchAll(/<div class="row-title"><a href="([^"]+)"/g)].map(([, href]) =>
        href?.split('/').at(-1),
      )
    }
    t.strictSame(await titles(''), ['2', '1'])
    t.strictSame(await titles('state=closed'), ['3'])
    t.strictSame(await titles('state=all'), ['3', '2', '1'])
    t.strictSame(await titles('labels=bug'), ['1'])
    t.strictSame(await titles('q=finn'), ['2'])
    t.strictSame(await titles('milestones=1.0'), ['2'])
    t.strictSame(await titles('assigned_by=bob'), ['2'])
    t.strictSame(await titles('state=all&limit=1&page=2'), ['2'])
    t.strictSame(await titles('', 'pulls'), [`${pull + 1}`, `${pull}`])
    t.strictSame(await titles('sort=oldest', 'pulls'), [`${pull}`, `${pull + 1}`])
    t.strictSame(await titles('q=shortly', 'pulls'), [`${pull}`])
    t.strictSame(await titles('q=finnish', 'pulls'), [])
    const { text } = await get(`${REPO}/issues?state=all&labels=&q=&limit=1&page=2`)
    t.match(text, `href="${REPO}/issues?state=all&#38;limit=1&#38;page=3" rel="next"`)
    t.match((await get(`${REPO}/pulls?q=none`)).text, 'No pull request matches')
    t.match(await get(`${REPO}/milestone/1`), {
      status: 302,
      location: `${REPO}/issues?milestones=1&state=all`,
    })
  },
)

t.test('an issue has its conversation and its facts; a pull request has its own page', async (t) => {
  const { text } = await get(`${REPO}/issues/1`)
  t.match(text, '<em>fails</em>')
  t.match(text, 'Seen, too. See <a href="')
  t.match(text, /id="issuecomment-\d+"/)
  t.match(text, 'changed the title from')
  t.match(text, 'added the label')
  t.match(text, 'aria-label="Facts about the issue"')
  t.match((await get(`${REPO}/issues/2`)).text, 'mentioned this issue in')
  t.match(await get(`${REPO}/issues/${pull}`), { status: 302, location: `${REPO}/pulls/${pull}` })
  t.match(await get(`${REPO}/issues/3`), { status: 200, text: 'closed this issue' })
})

t.test(
  'the first page searches repositories and shows the newest issues that the reader may see',
  async (t) => {
    const found = await get('/?q=greet')
    t.match(found.text, 'href="/alice/greetings"')
    t.notMatch(found.text, 'href="/alice/blank"')
    t.match((await get('/?q=nothing-like-it')).text, 'No repository matches')
    t.match((await get('/')).text, 'Newest issues and pull requests')
    const made = await server.fetch('alice', '/api/v1/repos/alice/secret/issues', {
      method: 'POST',
      body: '{"title":"A hidden matter"}',
    })
    t.equal(made.status, 201)
    t.notMatch((await get('/')).text, 'A hidden matter')
    t.match((await get('/', 'alice')).text, 'A hidden matter')
  },
)

t.test('lists start no git process: they work without the repositories on disk', async (t) => {
  const { gitDir } = server.services
  await rename(gitDir, `${gitDir}.away`)
  t.teardown(() => rename(`${gitDir}.away`, gitDir))
  for (const path of ['/', '/alice']) t.equal((await get(path)).status, 200, path)
  for (const part of [
    'issues',
    'issues?q=finnish',
    'pulls',
    'branches',
    'labels',
    'milestones',
    'releases',
    'issues/2',
  ]) {
    t.equal((await get(`${REPO}/${part}`)).status, 200, part)
  }
})
