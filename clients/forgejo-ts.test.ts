/** forgejo-ts: every function of Forgejo's API by axios, with its types of bodies, lists and errors. */
import t from 'tap'
import { startTestServer } from '../test/start-server.ts'
import { until } from '../test/until.ts'
import { load, tokenOf } from './client.ts'

interface Answer {
  status?: number
  data: Record<string, unknown>
  /** The body of a refusal: a function does not reject. */
  error?: Record<string, unknown>
  /** The answer that a refusal has. */
  response?: { status: number }
}

type Functions = Record<string, (options: object) => Promise<Answer>>

t.test('forgejo-ts manages repositories, issues, pull requests and releases', async (t) => {
  const server = await startTestServer(t)
  await server.as('bob')
  const forgejo: Functions = load('@llamaduck/forgejo-ts')
  const { createClient, createConfig } = load('@llamaduck/forgejo-ts/client')

  const baseURL = `${server.url}/api/v1`
  const client = createClient(
    createConfig({ baseURL, headers: { Authorization: `token ${await tokenOf(server, 'alice')}` } }),
  )
  /** Calls a function of the client, and returns its answer when it has that status. */
  async function call(name: string, status: number, options: object = {}): Promise<Answer['data']> {
    const answer = await forgejo[name]?.({ client, ...options })
    t.equal(answer?.response?.status ?? answer?.status, status, name)
    return answer?.error ?? answer?.data ?? {}
  }
  const path = { owner: 'alice', repo: 'app' }
  const base64 = (text: string) => Buffer.from(text).toString('base64')

  t.match(await call('userGetCurrent', 200), { login: 'alice' })
  const created = { name: 'app', default_branch: 'main', auto_init: true, private: true }
  t.match(await call('createCurrentUserRepo', 201, { body: created }), { full_name: 'alice/app' })
  await call('repoAddCollaborator', 204, {
    path: { ...path, collaborator: 'bob' },
    body: { permission: 'write' },
  })
  // Without a body, axios names a content type all the same.
  await call('repoAddTopic', 204, { path: { ...path, topic: 'axios' } })
  t.match(await call('repoListTopics', 200, { path }), { topics: ['axios'] })
  await call('repoDeleteTopic', 204, { path: { ...path, topic: 'axios' } })

  const labels = await Promise.all(
    ['bug', 'urgent'].map((name) =>
      call('issueCreateLabel', 201, { path, body: { name, color: '#ff0000' } }),
    ),
  )
  const due_date = '2030-01-31T23:59:59Z'
  const issue = {
    title: 'It fails',
    body: 'See `app`',
    due_date,
    labels: labels.map(({ id }) => id),
    assignees: ['bob'],
  }
  t.match(await call('issueCreateIssue', 201, { path, body: issue }), {
    number: 1,
    assignees: [{ login: 'bob' }],
  })
  await call('issueCreateIssue', 201, { path, body: { title: 'Another' } })
  const query = { state: 'open', type: 'issues', labels: 'bug,urgent', limit: 10 }
  t.match(await call('issueListIssues', 200, { path, query }), [{ number: 1, title: 'It fails' }])
  const index = { ...path, index: 1 }
  t.match(await call('issueCreateComment', 201, { path: index, body: { body: 'Me too' } }), {
    body: 'Me too',
  })
  t.match(await call('issueEditIssueDeadline', 201, { path: index, body: { due_date: null } }), {
    due_date: null,
  })
  const file = new Blob(['what it said'], { type: 'text/plain' })
  t.match(
    await call('issueCreateIssueAttachment', 201, {
      path: index,
      query: { name: 'output.txt' },
      body: { attachment: file },
    }),
    { name: 'output.txt', size: 12 },
  )
  await call('issueEditIssue', 201, { path: index, body: { state: 'closed', unset_due_date: true } })

  const content = { content: base64('fixed\n'), message: 'Fix it', new_branch: 'fix' }
  const written = await call('repoCreateFile', 201, {
    path: { ...path, filepath: 'docs/fix.txt' },
    body: content,
  })
  t.match(written, { content: { path: 'docs/fix.txt' } })
  t.match(
    await call('repoGetContents', 200, {
      path: { ...path, filepath: 'docs/fix.txt' },
      query: { ref: 'fix' },
    }),
    {
      content: content.content,
    },
  )
  const opened = await call('repoCreatePullRequest', 201, {
    path,
    body: { head: 'fix', base: 'main', title: 'Fix it', body: 'Closes #2' },
  })
  const pull = { ...path, index: opened.number }
  t.match(opened, { state: 'open', mergeable: true })
  await call('repoCreatePullReviewRequests', 201, { path: pull, body: { reviewers: ['bob'] } })
  t.match(await call('repoGetPullRequestFiles', 200, { path: pull }), [
    { filename: 'docs/fix.txt', status: 'added' },
  ])
  const sha = String(JSON.parse(JSON.stringify(opened)).head.sha)
  await call('repoCreateStatus', 201, { path: { ...path, sha }, body: { context: 'ci', state: 'success' } })
  t.match(await call('repoGetCombinedStatusByRef', 200, { path: { ...path, ref: sha } }), {
    state: 'success',
  })
  await call('repoPullRequestIsMerged', 404, { path: pull })
  const merge = { Do: 'squash', head_commit_id: sha, delete_branch_after_merge: true }
  await call('repoMergePullRequest', 200, { path: pull, body: merge })
  await call('repoPullRequestIsMerged', 204, { path: pull })
  t.match(await call('repoMergePullRequest', 405, { path: pull, body: merge }), { message: /merged/ })
  t.match(await call('repoListPullRequests', 200, { path, query: { state: 'closed' } }), [{ merged: true }])
  const second = { path: { ...path, index: 2 } }
  const isClosed = async () => (await call('issueGetIssue', 200, second)).state === 'closed'
  await until('the merge closes the issue that the pull request names', isClosed)

  const release = await call('repoCreateRelease', 201, { path, body: { tag_name: 'v1', name: 'One' } })
  await call('repoCreateReleaseAttachment', 201, {
    path: { ...path, id: release.id },
    query: { name: 'app.txt' },
    body: { attachment: file },
  })
  t.match(await call('repoGetReleaseByTag', 200, { path: { ...path, tag: 'v1' } }), {
    assets: [{ name: 'app.txt', size: 12 }],
  })

  const stranger = createClient(createConfig({ baseURL }))
  const refused = await forgejo.repoGet?.({ client: stranger, path })
  t.match(
    refused,
    { status: 404, error: { message: String, url: String } },
    'a private repository is not there',
  )
  const failed = await forgejo.issueCreateIssue?.({ client, path, body: { body: 'No title' } })
  t.match(failed, { status: 422, error: { message: 'title: is missing' } })
  await call('repoDelete', 204, { path })
  await call('repoGet', 404, { path })
})
