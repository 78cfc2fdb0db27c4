import t from 'tap'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { pullStream } from '../../src/events/streams.ts'
import { CONTENT_SECURITY_POLICY } from '../../src/web/layout.ts'
import { appendMany } from '../stores.ts'
import { until } from '../until.ts'
import { lastOf, startSamplePull } from './sample-pull.ts'

const story = await startSamplePull(t)
const { server, app, index, page } = story
await until('the head has moved', async () => (await app.typesOf(index)).includes('PullRequestHeadMoved'))

const get = async (path: string, login: string | null = null, init: RequestInit = {}) => {
  const answer = await server.fetch(login, path, init)
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

t.test('the page shows state, timeline, commits and diff without a script', async (t) => {
  const { status, headers, text } = await get(page)
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  t.match(text, 'Greet politely, and find the answer')
  t.match(text, 'It also adds a file with an odd name.')
  t.match(text, /<bdi>carol<\/bdi><\/a><\/span> commented\./)
  t.match(text, 'Commit on polite')
  t.match(text, /<td class="code">export const answer &#x3D; 42|<ins>42<\/ins>/)
  const last = await lastOf(story)
  for (let revision = Math.max(0, last - 99); revision <= last; revision++) {
    t.match(
      text,
      `href="${page}?revision&#61;${revision}" data-revision="${revision}"`,
      `event ${revision} has a link`,
    )
  }
})

t.test('titles, file names and file contents never become markup, and texts only safe markup', async (t) => {
  for (const revision of ['', '?revision=2', '?revision=3']) {
    const { text } = await get(`${page}${revision}`)
    const scripts = [...text.matchAll(/<script[^>]*>/g)].map(([tag]) => tag)
    t.strictSame(scripts, ['<script type="module" src="/ui/assets/page.js">'])
    t.notMatch(text, /<img|<b onclick|\sstyle=|\son\w+="/)
  }
  t.match((await get(page)).text, 'a &lt;b onclick', 'the odd name is shown')
})

t.test('markdown is rendered; people, commits, the repository and JSON are links', async (t) => {
  const { text } = await get(page)
  t.match(text, 'This asks <em>how</em> to greet')
  t.match(text, '<a href="/carol"><bdi>carol</bdi></a>')
  t.match(text, /<a href="\/alice\/app\/commit\/[0-9a-f]{40}"><code>/)
  t.match(text, '<a href="/alice/app"><bdi>app</bdi></a>')
  t.match(text, `<a href="/api/v1/repos/alice/app/pulls/${index}">JSON</a>`)
})

t.test('events of the server are attributed to the server', async (t) => {
  const { text } = await get(page)
  t.match(text, /<span class="who">Mergelog<\/span> found that .* can be merged\./)
  t.notMatch(text, /<\/a><\/span> found that/)
})

t.test('a moment shows the pull request in its past state, and marks the changes', async (t) => {
  const events = await app.eventsOf(index)
  const titled = events.findLastIndex(({ type }) => type === 'TitleChanged')
  const { text } = await get(`${page}?revision=${titled}&part=moment`)
  t.match(text, /<h1[^>]*class="changed"><mark><bdi>Greet politely/)
  t.match(text, 'Changed: Title.')
  t.match(text, /was <del><bdi>&#60;script/)
  const first = (await get(`${page}?revision=0&part=moment`)).text
  t.match(first, 'Greetings that are polite')
  t.match(first, 'This is the first event: everything is new.')
  t.notMatch(first, '<mark>')
  const pushed = events.findIndex(({ type }) => type === 'PullRequestHeadMoved')
  t.match((await get(`${page}?revision=${pushed}&part=changes`)).text, '2 commits')
  t.match((await get(`${page}?revision=${pushed - 1}&part=changes`)).text, '1 commit<')
})

t.test('every answer has a strict policy, and caches never keep private data', async (t) => {
  for (const path of [page, '/ui/assets/page.js', '/ui/alice/nothing/pulls/1', `${page}?revision=x`]) {
    const { headers } = await get(path)
    t.equal(headers.get('content-security-policy'), CONTENT_SECURITY_POLICY, path)
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    t.equal(headers.get('referrer-policy'), 'no-referrer')
    t.equal(headers.get('x-frame-options'), 'DENY')
    t.equal(headers.get('strict-transport-security'), null, 'only over https')
  }
  for (const path of ['/api/docs', '/api/docs/static/swagger-ui.css', '/api/docs/json']) {
    const { headers, text } = await get(path)
    const policy = headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;/, path)
    t.equal(headers.get('x-frame-options'), 'DENY')
    if (path === '/api/docs') t.notMatch(text, /<script>|<style|style=|\son[a-z]+=/, 'nothing is inline')
  }
  t.notMatch(CONTENT_SECURITY_POLICY, /unsafe|\*|http|data:/)
  t.equal((await get(page)).headers.get('cache-control'), 'private, no-cache')
})

t.test('anonymous users are asked to sign in; a hidden page answers like a missing one', async (t) => {
  const hidden = await story.repository(t, 'hidden', { private: true })
  await hidden.branch('topic', { x: 'x' })
  const secret = `/ui/alice/hidden/pulls/${await hidden.open('topic')}`
  const [anonymous, nothing] = await Promise.all([get(secret), get('/ui/alice/nothing/pulls/1')])
  t.equal(anonymous.status, 401)
  t.match(anonymous.headers.get('www-authenticate'), /^Basic /)
  t.equal(nothing.status, 401)
  t.equal(nothing.text, anonymous.text)
  t.match(anonymous.headers.get('content-type'), /^text\/html/)
  const other = await get(secret, 'dave')
  t.equal(other.status, 404)
  t.equal(other.text, (await get('/ui/alice/nothing/pulls/1', 'dave')).text)
  const own = await get(secret, 'alice')
  t.equal(own.status, 200)
  t.equal(own.headers.get('cache-control'), 'private, no-store')
  const wrong = { headers: { authorization: 'Bearer nonsense' } }
  t.equal((await get(page, null, wrong)).status, 401)
})

t.test(
  'an unknown number gives 404, an unknown moment 404 with the valid range, an invalid moment 422',
  async (t) => {
    const last = await lastOf(story)
    for (const number of ['999', 'x', '0', '-1', '1e1', '9'.repeat(40)]) {
      t.equal((await get(`/ui/alice/app/pulls/${number}`)).status, 404, number)
    }
    for (const part of ['', '&part=moment', '&part=timeline', '&part=changes']) {
      for (const revision of [last + 1, -1, '9'.repeat(30)]) {
        const { status, text } = await get(`${page}?revision=${revision}${part}`)
        t.equal(status, 404, `${revision}${part}`)
        t.match(text, `revision: 0 to ${last}`)
      }
      t.equal((await get(`${page}?revision=1.5${part}`)).status, 422)
    }
    t.equal((await get(`${page}?part=nothing`)).status, 422)
    t.match((await get(`${page}?revision=<script>`)).text, 'whole number')
  },
)

t.test('assets have their types and an ETag; HEAD answers like GET without a body', async (t) => {
  const types = { 'page.js': /^text\/javascript/, 'page.css': /^text\/css/, 'icon.svg': /^image\/svg\+xml/ }
  for (const [name, type] of Object.entries(types)) {
    const path = `/ui/assets/${name}`
    const { status, headers, text } = await get(path)
    t.equal(status, 200)
    t.match(headers.get('content-type'), type)
    t.ok(text.length > 100)
    const known = await get(path, null, { headers: { 'if-none-match': headers.get('etag') ?? '' } })
    t.equal(known.status, 304)
    t.equal(known.text, '')
  }
  t.equal((await get('/ui/assets/nothing.js')).status, 404)
  const head = await get(page, null, { method: 'HEAD' })
  t.equal(head.status, 200)
  t.equal(head.text, '')
  t.match(head.headers.get('content-type'), /^text\/html/)
  t.equal((await get(page, 'alice', { method: 'POST' })).status, 405)
})

t.test('a large diff and a long text are cut, and the page reports it', async (t) => {
  const large = await story.repository(t, 'large')
  const line = (i: number, word: string) => `${word} ${i} ${'x'.repeat(i % 300)}\n`
  const text = (word: string) => Array.from({ length: 5000 }, (_, i) => line(i, word)).join('')
  await large.commit('Before', { 'large.txt': text('one'), 'wide.txt': 'w'.repeat(200_000) })
  await large.push('main')
  await large.branch('topic', { 'large.txt': text('two'), 'wide.txt': `${'w'.repeat(200_000)}!` })
  const number = await large.open('topic', { body: 'b'.repeat(50_000) })
  const { status, text: shown } = await get(`/ui/alice/large/pulls/${number}`)
  t.equal(status, 200)
  t.match(shown, 'This is only the beginning of a large diff.')
  t.match(shown, 'and 30000 more characters')
  t.ok(shown.length < 4 * 1024 * 1024, `${shown.length} characters`)
})

t.test('the whole diff of a moment is available as text', async (t) => {
  const events = await app.eventsOf(index)
  const pushed = events.findIndex(({ type }) => type === 'PullRequestHeadMoved')
  const after = await get(`${page}/diff?revision=${pushed}`)
  t.equal(after.status, 200)
  t.equal(after.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.match(after.text, '+<script>window.hacked=1</script>')
  const before = await get(`${page}/diff?revision=${pushed - 1}`)
  t.match(before.text, '+export const answer = 42')
  t.notMatch(before.text, '<script>')
  t.equal((await get(`${page}/diff`)).status, 422)
  t.equal((await get(`${page}/diff?revision=9999`)).status, 404)
  t.equal((await get('/ui/alice/nothing/pulls/1/diff?revision=0')).status, 401)
})

t.test('new events arrive live, below the path that asks for a password', async (t) => {
  const last = await lastOf(story)
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  const answer = await server.fetch(null, `${page}/live?after=${last - 1}`, { signal: stop.signal })
  t.match(answer.headers.get('content-type'), /^text\/event-stream/)
  t.equal(answer.headers.get('cache-control'), 'no-store')
  let text = ''
  for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part
    if (text.includes(`id: ${last}\n`)) break
  }
  t.notMatch(text, `id: ${last - 1}\n`)
  t.equal((await get('/ui/alice/nothing/pulls/1/live')).status, 401)
  t.equal((await get('/ui/alice/nothing/pulls/1/live', 'dave')).status, 404)
  t.equal((await get(`${page}/live?after=x`)).status, 422)
})

t.test('a long timeline is shown in parts', async (t) => {
  const long = await story.repository(t, 'long')
  await long.branch('topic', { x: 'x' })
  const number = await long.open('topic')
  const author = { id: 2, login: 'alice' }
  const said = Array.from({ length: 110 }, (_, i): DomainEvent => {
    const comment = { repoId: long.repoId, index: number, commentId: 900_000 + i }
    return { type: 'CommentAdded', data: { ...comment, author, body: `c${i}` } }
  })
  const { position } = await appendMany(server.services.events, pullStream(long.repoId, number), said)
  await server.services.projector.waitFor(position, 60_000)
  const last = (await long.eventsOf(number)).length - 1
  const path = `/ui/alice/long/pulls/${number}`
  const newest = (await get(path)).text
  t.match(newest, 'Earlier: events 1 to 100')
  t.match(newest, 'c109')
  t.notMatch(newest, '>c1<')
  const first = (await get(`${path}?revision=99`)).text
  t.match(first, `Later: events 101 to ${last + 1}`)
  t.notMatch(first, 'c109')
})
