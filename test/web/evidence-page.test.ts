import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)
const own = await repository(t, 'app', { writers: ['bob'] })
const { branch, open, merge, protect, postStatus, call } = own
await protect('main', { enable_status_check: true, status_check_contexts: ['ci'], required_approvals: 1 })
const head = await branch('topic', { a: 'a' })
const index = await open('topic', { title: 'A <b>bold</b> title' })
await postStatus(head, 'failure', 'ci')
await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
await merge(index, { force_merge: true })
const page = `/ui/alice/app/pulls/${index}`

const get = async (path: string, login: string | null) => {
  const answer = await server.fetch(login, path)
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

t.test(
  'evidence.6: the page of a merged pull request links to a page that shows why it could be merged',
  async (t) => {
    t.match((await get(page, null)).text, `<a href="${page}/evidence">Why could this be merged?</a>`)
    const { status, headers, text } = await get(`${page}/evidence`, 'alice')
    t.equal(status, 200)
    t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
    t.match(text, '<h1>Why could this be merged?</h1>')
    t.match(text, /<dt>Override by an admin<\/dt><dd>yes/)
    t.match(text, 'protection &#34;main&#34;: the required status checks are failed')
    t.match(text, /<dt>Permission<\/dt><dd>admin, as the owner of the repository/)
    t.match(text, /<dt>Four eyes<\/dt><dd>yes/)
    t.match(text, /<bdi>ci<\/bdi>: failure <span class="badge quiet">Required/)
    t.match(text, /approved <a href="\/alice\/app\/commit\/[0-9a-f]{40}">/)
    t.match(text, 'Counted')
    t.match(text, /event 0 of <code>checks-\S+<\/code>, hash <code>\S{43}<\/code>/)
    t.match(text, `href="/api/v1/repos/alice/app/pulls/${index}/evidence?format&#61;document"`)
  },
)

t.test('evidence.6: it needs no script, and texts never become markup', async (t) => {
  const { text, headers } = await get(`${page}/evidence`, 'alice')
  t.match(headers.get('content-security-policy'), "default-src 'none'")
  t.notMatch(text, /<script|\sstyle=|\son\w+="|<b>bold/)
  t.match(text, 'A &#60;b&#62;bold')
})

t.test('evidence.6: readers do not see what only admins may see', async (t) => {
  for (const login of ['bob', null]) {
    const { status, text } = await get(`${page}/evidence`, login)
    t.equal(status, 200)
    t.match(text, /<dt>Permission<\/dt><dd><span class="none">for admins/)
    t.notMatch(text, /blockAdminOverride|format&#61;document/)
  }
})

t.test('evidence.6: a pull request that is not merged gives 404', async (t) => {
  await branch('other', { b: 'b' })
  const other = await open('other')
  t.equal((await get(`/ui/alice/app/pulls/${other}/evidence`, 'alice')).status, 404)
  t.notMatch((await get(`/ui/alice/app/pulls/${other}`, 'alice')).text, 'Why could this be merged')
})
