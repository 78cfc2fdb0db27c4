/** The page under the cross-site rules: each request has the headers that a browser sends with it. */
import { request } from 'node:http'
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { basic } from '../server-template.ts'

const EVIL = 'https://evil.example'

const pulls = await startPulls(t)
const { server } = pulls
/** The origin of the own pages. */
const OWN = server.url
const app = await pulls.repository(t, 'app', { private: true })
await app.branch('topic', { 'a.txt': 'changed\n' })
const index = await app.open('topic')
await app.call('alice', 'POST', `issues/${index}/comments`, { body: 'news' })
const page = `/ui/alice/app/pulls/${index}`

/** A request with exactly these headers; `fetch` of Node would add its own. Reads only the beginning of a live answer. */
function browser(method: string, path: string, headers: Record<string, string>, body = '') {
  return new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>(
    (resolve, reject) => {
      const own = { host: new URL(OWN).host, authorization: basic('alice'), ...headers }
      const asked = request(`${server.url}${path}`, { method, headers: own, agent: false }, (answer) => {
        let text = ''
        const end = () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text })
        answer.setEncoding('utf8').on('data', (part) => {
          text += part
          if (!headers.accept?.includes('event-stream') || !text.includes('\nid: ')) return
          end()
          asked.destroy()
        })
        answer.on('end', end)
        answer.on('error', end)
      })
      asked.on('error', reject)
      asked.end(body)
    },
  )
}

/** Chromium's headers for the origin and the purpose of a request. */
const fetched = (site: string, mode: string, dest: string) => ({
  'sec-fetch-site': site,
  'sec-fetch-mode': mode,
  'sec-fetch-dest': dest,
})
const navigated = (site: string) => ({
  ...fetched(site, 'navigate', 'document'),
  'sec-fetch-user': '?1',
  'upgrade-insecure-requests': '1',
  accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
})

t.test('the page keeps working: all requests of its browser are answered', async (t) => {
  for (const site of ['none', 'same-origin', 'same-site', 'cross-site']) {
    const { status, text } = await browser('GET', page, navigated(site))
    t.equal(status, 200, `typed, followed or linked from elsewhere: ${site}`)
    t.match(text, '/ui/assets/page.js')
  }
  const own: [what: string, path: string, headers: Record<string, string>][] = [
    ['the style', '/ui/assets/page.css', fetched('same-origin', 'no-cors', 'style')],
    ['the module', '/ui/assets/page.js', { ...fetched('same-origin', 'cors', 'script'), origin: OWN }],
    ['the icon', '/ui/assets/icon.svg', fetched('same-origin', 'no-cors', 'image')],
    ['a section', `${page}?revision=0&part=moment`, fetched('same-origin', 'cors', 'empty')],
    ['the diff', `${page}/diff?revision=0`, navigated('same-origin')],
    ['the documentation', '/api/docs', navigated('same-origin')],
    ['a question of the documentation', '/api/v1/repos/alice/app', fetched('same-origin', 'cors', 'empty')],
  ]
  for (const [what, path, headers] of own) t.equal((await browser('GET', path, headers)).status, 200, what)
  const live = { ...fetched('same-origin', 'cors', 'empty'), 'cache-control': 'no-cache' }
  const stream = await browser('GET', `${page}/live?after=0`, { ...live, accept: 'text/event-stream' })
  t.equal(stream.status, 200, 'the EventSource')
  t.match(stream.headers['content-type'], /^text\/event-stream/)
  t.equal((await browser('HEAD', `${page}/live?after=0`, live)).status, 200, 'why an EventSource was refused')
})

t.test("state-changing requests are accepted from Mergelog's pages only", async (t) => {
  const issues = '/api/v1/repos/alice/app/issues'
  const body = '{"title":"From a page"}'
  const json = { 'content-type': 'application/json', accept: 'application/json' }
  const tried = { ...fetched('same-origin', 'cors', 'empty'), origin: OWN, ...json }
  t.equal((await browser('POST', issues, tried, body)).status, 201, 'the documentation tries a route out')
  const { 'sec-fetch-site': _, ...older } = tried
  t.equal((await browser('POST', issues, older, body)).status, 201, 'in a browser without Sec-Fetch-Site')

  const form = { ...navigated('cross-site'), origin: EVIL }
  const attacks: [what: string, method: string, path: string, headers: Record<string, string>][] = [
    ['a form of text', 'POST', issues, { ...form, 'content-type': 'text/plain' }],
    ['a form', 'POST', issues, { ...form, 'content-type': 'application/x-www-form-urlencoded' }],
    ['a form of parts', 'POST', issues, { ...form, 'content-type': 'multipart/form-data; boundary=x' }],
    [
      'a form in a frame without origin',
      'POST',
      issues,
      { ...navigated('cross-site'), origin: 'null', ...json },
    ],
    [
      'a page of another port',
      'POST',
      issues,
      { ...navigated('same-site'), origin: 'http://127.0.0.1:1', ...json },
    ],
    [
      'a page of a neighbour',
      'POST',
      issues,
      { ...navigated('same-site'), origin: 'http://neighbour.localhost' },
    ],
    ['a script', 'POST', issues, { ...fetched('cross-site', 'no-cors', 'empty'), origin: EVIL }],
    [
      'a beacon',
      'POST',
      issues,
      { ...fetched('cross-site', 'no-cors', 'empty'), origin: EVIL, 'content-type': 'text/plain' },
    ],
    ['an older browser', 'POST', issues, { origin: EVIL, ...json }],
    [
      'a script that deletes',
      'DELETE',
      '/api/v1/repos/alice/app',
      { ...fetched('cross-site', 'cors', 'empty'), origin: EVIL },
    ],
    ['a form for git', 'POST', '/alice/app.git/git-receive-pack', form],
    ['a form for the page', 'POST', page, form],
  ]
  const before = await server.services.events.lastPosition()
  for (const [what, method, path, headers] of attacks) {
    const { status, text } = await browser(method, path, headers, method === 'POST' ? body : '')
    t.equal(status, 403, what)
    t.match(text, /a page of another site may not change anything here/)
  }
  t.equal(await server.services.events.lastPosition(), before, 'nothing has changed')
})

t.test('a page of another site reads nothing: no permission by CORS, no frame, no embedding', async (t) => {
  const asking = { ...fetched('cross-site', 'cors', 'empty'), origin: EVIL }
  const preflight = {
    ...asking,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type',
  }
  const paths = [page, `${page}?part=moment`, '/ui/assets/page.js', '/api/v1/repos/alice/app', '/api/v1/user']
  for (const path of paths) {
    for (const [method, headers] of [
      ['GET', asking],
      ['OPTIONS', preflight],
    ] as const) {
      const answer = await browser(method, path, headers)
      t.notOk(answer.headers['access-control-allow-origin'], `${method} ${path}`)
      t.notOk(answer.headers['access-control-allow-credentials'])
    }
  }
  const framed = await browser('GET', page, { ...navigated('cross-site'), 'sec-fetch-dest': 'iframe' })
  t.match(framed.headers['content-security-policy'], /frame-ancestors 'none'/)
  const script = await browser('GET', '/ui/assets/page.js', fetched('cross-site', 'no-cors', 'script'))
  t.equal(script.headers['cross-origin-resource-policy'], 'same-origin')
})
