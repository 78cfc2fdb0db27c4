/** Line 11, over the API: an unreachable object is not served by its id, and a new ref does not revive it. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)
const base = '/api/v1/repos/alice/app'
const encoded = (text: string) => Buffer.from(text).toString('base64')

interface Answer {
  status: number
  text: string
}

async function call(login: string | null, method: string, path: string, body?: object): Promise<Answer> {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, path, init)
  return { status: answer.status, text: await answer.text() }
}

async function must(method: string, path: string, body?: object): Promise<string> {
  const { status, text } = await call('alice', method, path, body)
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  return text
}

await must('POST', '/api/v1/user/repos', { name: 'app', auto_init: true })
await must('POST', `${base}/branches`, { new_branch_name: 'topic', old_branch_name: 'main' })
const file = { content: encoded('hunter2'), message: 'Oops', branch: 'topic' }
const made: { commit: { sha: string; tree: { sha: string } }; content: { sha: string } } = JSON.parse(
  await must('POST', `${base}/contents/password`, file),
)
const { sha } = made.commit
const tree = made.commit.tree.sha
const blob = made.content.sha
const short = sha.slice(0, 10)

/** Every route for an object that the client names by its id. */
const paths = [sha, sha.toUpperCase(), short]
  .flatMap((id) => [
    `${base}/git/commits/${id}`,
    `${base}/git/commits/${id}.diff`,
    `${base}/commits/${id}`,
    `${base}/commits/${id}.patch`,
    `${base}/commits?sha=${id}`,
    `${base}/compare/main...${id}`,
    `${base}/compare/${id}...main`,
    `${base}/git/trees/${id}`,
    `${base}/contents?ref=${id}`,
    `${base}/contents/password?ref=${id}`,
    `${base}/contents-ext/password?ref=${id}`,
    `${base}/file-contents?ref=${id}&body=${encodeURIComponent('{"files":["password"]}')}`,
    `${base}/raw/password?ref=${id}`,
    `${base}/media/password?ref=${id}`,
    `${base}/archive/${id}.zip`,
    `/alice/app/raw/commit/${id}/password`,
    `/alice/app/archive/${id}.tar.gz`,
  ])
  .concat(`${base}/git/trees/${tree}`, `${base}/git/blobs/${blob}`, `${base}/raw/${sha}/password`)

t.test('reachable objects are served by their ids', async (t) => {
  for (const path of paths) t.equal((await call(null, 'GET', path)).status, 200, path)
})

t.test('unreachable objects are not served by id', async (t) => {
  // Checks that came late keep a document of the commit.
  await must('POST', `${base}/statuses/${sha}`, { context: 'build', state: 'success' })
  await must('DELETE', `${base}/branches/topic`)
  for (const path of paths) {
    for (const login of [null, 'alice']) t.equal((await call(login, 'GET', path)).status, 404, path)
  }
  const later = { context: 'build', state: 'failure' }
  t.equal((await call('alice', 'POST', `${base}/statuses/${sha}`, later)).status, 201, 'checks may end late')
})

t.test('unreachable objects are not revived by a new branch, tag or release', async (t) => {
  for (const id of [sha, short]) {
    const requests: [string, object][] = [
      ['branches', { new_branch_name: 'again', old_ref_name: id }],
      ['tags', { tag_name: 'again', target: id }],
      ['releases', { tag_name: 'again', target_commitish: id }],
    ]
    for (const [path, body] of requests) {
      t.equal((await call('alice', 'POST', `${base}/${path}`, body)).status, 404, path)
    }
  }
  const draft = { tag_name: 'later', target_commitish: sha, draft: true }
  const { id }: { id: number } = JSON.parse(await must('POST', `${base}/releases`, draft))
  t.equal((await call('alice', 'PATCH', `${base}/releases/${id}`, { draft: false })).status, 404)
  t.notMatch(await must('GET', `${base}/git/refs`), sha)
})

t.test('objects of a pull request or a tag are served', async (t) => {
  await must('POST', `${base}/branches`, { new_branch_name: 'kept', old_branch_name: 'main' })
  const kept = { content: encoded('kept'), message: 'Keep', branch: 'kept' }
  const { commit }: typeof made = JSON.parse(await must('POST', `${base}/contents/kept`, kept))
  await must('POST', `${base}/pulls`, { head: 'kept', base: 'main', title: 'Keep' })
  await must('PATCH', `${base}/pulls/1`, { state: 'closed' })
  await must('DELETE', `${base}/branches/kept`)
  t.equal((await call(null, 'GET', `${base}/raw/kept?ref=${commit.sha}`)).text, 'kept')
})
