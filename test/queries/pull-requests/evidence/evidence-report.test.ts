import t from 'tap'
import { csvLine } from '../../../../src/http/answers/csv.ts'
import { startPulls } from '../../../commands/pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)

const day = (offset = 0) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10)

const { branch, open, merge, protect, postStatus, call, get, close } = await repository(t, 'report', {
  writers: ['bob'],
})
await protect('main', { enable_status_check: true, status_check_contexts: ['ci', 'lint'] })
const head = await branch('topic', { a: 'a' })
const first = await open('topic', { title: '=HYPERLINK("http://x"), "quoted"' })
await postStatus(head, 'success', 'ci')
await postStatus(head, 'success', 'lint')
await call('bob', 'POST', `pulls/${first}/reviews`, { event: 'APPROVED' })
await merge(first)
await branch('other', { b: 'b' })
const forced = await open('other')
await merge(forced, { force_merge: true })
await branch('closed', { c: 'c' })
await close(await open('closed'))

const report = (query: string, accept = '*/*', login: string | null = 'alice') =>
  server.fetch(login, `/api/v1/repos/alice/report/evidence${query}`, { headers: { accept } })
const rowsIn = async (query: string) =>
  (await (await report(query)).text())
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

t.test('evidence.5: all merges of a period as JSON lines', async (t) => {
  const answer = await report('')
  t.equal(answer.headers.get('content-type'), 'application/x-ndjson; charset=utf-8')
  const rows = await rowsIn('')
  const pull = await get(first)
  t.match(rows, [
    {
      pull_request: first,
      title: pull.title,
      author: 'alice',
      merged_by: 'alice',
      base: 'main',
      head_commit: head,
      merge_commit: pull.merge_commit_sha,
      four_eyes: true,
      approvals: ['bob'],
      required_checks: [
        { context: 'ci', state: 'success' },
        { context: 'lint', state: 'success' },
      ],
      bypassed: [],
      forced: false,
      scheduled: false,
      seconds_to_merge: Number,
      protection_rule: 'main',
      evidence_url: `${server.url}/ui/alice/report/pulls/${first}/evidence`,
    },
    {
      pull_request: forced,
      four_eyes: false,
      approvals: [],
      required_checks: [
        { context: 'ci', state: 'missing' },
        { context: 'lint', state: 'missing' },
      ],
      bypassed: [/the required status checks are pending/],
      forced: true,
    },
  ])
  t.equal(rows.length, 2)
  t.equal((await report('', '*/*', null)).status, 200, 'the repository is public')
})

t.test('evidence.5: both ends of the period are included', async (t) => {
  t.equal((await rowsIn(`?from=${day()}&to=${day(1)}`)).length, 2)
  t.equal((await rowsIn(`?from=${day(2)}`)).length, 0)
  t.equal((await rowsIn(`?to=${day(-2)}`)).length, 0)
  const [, { merged_at: at }] = await rowsIn('')
  t.match(await rowsIn(`?from=${at}&to=${at}`), [{ pull_request: forced }])
  for (const query of ['?from=soon', '?to=2026-02-30']) {
    t.match(await (await report(query)).json(), { message: /: must be a date as/ })
    t.equal((await report(query)).status, 422)
  }
  const turned = await report(`?from=${day()}&to=${day(-1)}`)
  t.equal(turned.status, 422)
  t.match(await turned.json(), { message: 'from: must not be later than to' })
})

t.test('evidence.5: CSV with RFC 4180 quoting, and no formulas', async (t) => {
  const answer = await report('', 'text/csv')
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present')
  const [header, one = '', two = '', end] = (await answer.text()).split('\r\n')
  t.equal(
    header,
    'pull request,title,author,merged by,merged at,base,head commit,merge commit,four eyes,approvals,required checks,' +
      'bypassed,forced,scheduled,seconds from opening to merge,protection rule,evidence',
  )
  t.ok(one.startsWith(`${first},"'=HYPERLINK(""http://x""), ""quoted""",alice,alice,`))
  t.match(one, `${head},`)
  t.match(one, ',yes,bob,ci: success; lint: success,,no,no,')
  t.match(
    two,
    ',no,,ci: missing; lint: missing,"protection ""main"": the required status checks are pending",yes,no,',
  )
  t.equal(end, '')
  t.equal(csvLine(['a\nb', '-1', '@x', '+1', '\tx', -1, true, null]), `"a\nb",'-1,'@x,'+1,'\tx,-1,true,\r\n`)
})

t.test('evidence.5: an erased title stays erased', async (t) => {
  t.equal((await call('alice', 'POST', `issues/${forced}/erase`, { all: true })).status, 204)
  t.match((await rowsIn(''))[1], { pull_request: forced, title: /^erased by alice/ })
})

t.test('evidence.5: a private repository does not show that it exists', async (t) => {
  await repository(t, 'hidden', { private: true })
  const path = '/api/v1/repos/alice/hidden/evidence'
  t.equal((await server.fetch('dave', path)).status, 404)
  t.same(await (await server.fetch('alice', path)).text(), '')
})
