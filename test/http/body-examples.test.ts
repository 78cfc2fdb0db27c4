/** Sends each example of `/api/openapi.json` to a server. */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { EXAMPLES } from '../../src/api/documentation/example-table.ts'
import { startTestServer } from '../start-server.ts'
import { checksOf, operationsOf, readDocumentation } from './documented.ts'

interface Target {
  /** Parameters of the path that differ from `PATH`. `*`: the rest of a path. */
  path?: Record<string, string | number>
  /** Default: alice. */
  login?: string
  /** Default: any 2xx. */
  status?: number
}

const PATH = { owner: 'alice', repo: 'example', org: 'example-org', index: 1 }
const REPO = '/api/v1/repos/alice/example'

const server = await startTestServer(t)
const document = await (await server.fetch(null, '/api/openapi.json')).text()
const { paths, components }: { paths: object; components: { schemas: Record<string, object> } } =
  JSON.parse(document)
const written = new Map(
  Object.values(paths).flatMap((item) =>
    Object.values(item).map((one) => [Object(one).operationId, JSON.stringify(Object(one).requestBody)]),
  ),
)
const documentation = readDocumentation(document)
const operations = new Map(operationsOf(documentation).map((one) => [one.operation.operationId, one]))
const { allows } = checksOf(documentation)
const sent = new Set<string>()

/** The name of an operation's example: that of the component that its body refers to, or its own. */
const exampleOf = (id: string) => /"#\/components\/schemas\/(\w+)"/.exec(written.get(id) ?? '')?.[1] ?? id

/** Calls an operation with its example. Resolves to the JSON of the answer. */
async function send(t: Test, id: string, { path = {}, login = 'alice', status }: Target = {}) {
  const found = operations.get(id)
  const [[type = '', media] = []] = Object.entries(found?.operation.requestBody?.content ?? {})
  if (found === undefined || media === undefined) throw new Error(`${id} has no body`)
  const values: Record<string, string | number> = { ...PATH, ...path }
  const url = found.path.replaceAll(
    /\{([^}]*)\}/g,
    (_, name) => `${values[name] ?? t.fail(`${id}: no ${name}`)}`,
  )
  const name = exampleOf(id)
  const example = EXAMPLES[name]
  sent.add(name)
  t.ok(allows(media.schema, example), `${id}: ${name} is valid`)
  const answer = await server.fetch(login, url, {
    method: found.method.toUpperCase(),
    body: typeof example === 'string' ? example : JSON.stringify(example),
    headers: { 'content-type': type },
  })
  const text = await answer.text()
  const isExpected = status === undefined ? answer.ok : answer.status === status
  t.ok(isExpected, `${id}: ${answer.status} ${text.slice(0, 500)}`)
  // Long-running operations answer with a line of JSON for each step.
  return /^[[{].*[\]}]$/.test(text) ? JSON.parse(text) : {}
}

async function upload(t: Test, path: string, body: string) {
  const headers = { 'content-type': 'application/octet-stream' }
  t.equal((await server.fetch('alice', path, { method: 'PUT', body, headers })).status, 200, path)
}

/** Sends another request, which has no example. Resolves to its JSON. */
async function prepare(t: Test, login: string, method: string, path: string, body?: string | FormData) {
  const answer = await server.fetch(login, path, body === undefined ? { method } : { method, body })
  t.ok(answer.ok, `${method} ${path}: ${answer.status}`)
  return JSON.parse(await answer.text())
}

t.test('every operation with a body of JSON or text has an example', async (t) => {
  for (const { name, operation } of operations.values()) {
    const types = Object.keys(operation.requestBody?.content ?? {})
    if (!types.some((type) => type.includes('json') || type === 'text/plain')) continue
    t.ok(
      EXAMPLES[exampleOf(operation.operationId)] !== undefined,
      `${name}: ${exampleOf(operation.operationId)}`,
    )
  }
  for (const [name, example] of Object.entries(EXAMPLES)) {
    if (typeof example !== 'string') t.match(components.schemas[name], { examples: [example] }, name)
  }
})

t.test('each example is valid and succeeds', async (t) => {
  await server.as('alice')
  await send(t, 'adminCreateUser', { login: 'admin' })
  await send(t, 'adminEditUser', { login: 'admin', path: { username: 'erin' } })
  await send(t, 'updateUserSettings')
  await send(t, 'userAddEmail')
  await send(t, 'userDeleteEmail')
  await send(t, 'userCreateToken', { path: { username: 'alice' } })
  await send(t, 'userCurrentPostKey')
  await send(t, 'userCurrentPostGpgKey')
  // The signature is of an earlier token: tokens expire.
  await send(t, 'userVerifyGpgKey', { status: 422 })
  await send(t, 'userChangePassword', { login: 'erin' })

  await send(t, 'orgCreate')
  await send(t, 'orgEdit')
  await send(t, 'orgSetMember', { path: { username: 'bob' } })
  const team = await send(t, 'orgCreateTeam')
  await send(t, 'orgEditTeam', { path: { id: team.id } })

  await send(t, 'createCurrentUserRepo')
  await send(t, 'repoEdit')
  await send(t, 'repoUpdateTopics')
  await send(t, 'repoAddCollaborator', { path: { collaborator: 'bob' } })
  await send(t, 'repoCreateBranch')
  await send(t, 'repoUpdateBranch', { path: { '*': 'topic' } })
  await send(t, 'repoMoveBranch', { path: { '*': 'next' } })
  await send(t, 'repoChangeFiles')
  await send(t, 'repoGetFileContentsPost')
  await send(t, 'repoUpdateFile', { path: { '*': 'docs/hello.txt' } })
  await send(t, 'repoDeleteFile', { path: { '*': 'docs/bye.txt' } })
  await send(t, 'repoCreateFile', { path: { '*': 'hello.txt' } })
  await send(t, 'createFork', { login: 'bob' })
  await send(t, 'repoMergeUpstream', { login: 'bob', path: { owner: 'bob', repo: 'fork-of-example' } })
  await prepare(t, 'alice', 'PATCH', REPO, '{"template":true}')
  await send(t, 'generateRepo')

  await send(t, 'issueCreateIssue')
  const label = await send(t, 'issueCreateLabel')
  const milestone = await send(t, 'issueCreateMilestone')
  await send(t, 'issueCreateComment')
  await send(t, 'issueEditIssue')
  await send(t, 'issueEditIssueDeadline')
  await send(t, 'issueAddLabel')
  await send(t, 'issueReplaceLabels')
  await send(t, 'issuePostIssueReaction')
  await send(t, 'issueDeleteIssueReaction')
  await send(t, 'issueEraseTexts')
  await send(t, 'issueEditLabel', { path: { id: label.id } })
  await send(t, 'issueEditMilestone', { path: { id: milestone.id } })

  await send(t, 'repoCreatePullRequest')
  const pull = { index: 2 }
  await send(t, 'issueCreateIssueDependencies')
  await send(t, 'issueRemoveIssueDependencies')
  await send(t, 'issueCreateIssueBlocking')
  await send(t, 'issueRemoveIssueBlocking')
  await send(t, 'issueLockIssue')
  await send(t, 'repoEditPullRequest', { path: pull })
  await send(t, 'repoCreatePullReviewRequests', { path: pull })
  await send(t, 'repoDeletePullReviewRequests', { path: pull })
  const draft = '{"event":"PENDING","body":"A draft"}'
  const pending = await prepare(t, 'carol', 'POST', `${REPO}/pulls/2/reviews`, draft)
  await send(t, 'repoSubmitPullReview', { path: { ...pull, id: pending.id }, login: 'carol' })
  const review = await send(t, 'repoCreatePullReview', { path: pull, login: 'bob' })
  const comments = await prepare(t, 'alice', 'GET', `${REPO}/pulls/2/reviews/${review.id}/comments`)
  await send(t, 'repoCreatePullReviewCommentReply', { path: { ...pull, id: comments[0]?.id } })
  await send(t, 'repoDismissPullReview', { path: { ...pull, id: review.id } })
  await send(t, 'repoMergePullRequest', { path: pull })

  await send(t, 'repoCreateTag')
  const rule = await send(t, 'repoCreateTagProtection')
  await send(t, 'repoEditTagProtection', { path: { id: rule.id } })
  await send(t, 'repoCreateBranchProtection')
  await send(t, 'repoUpdateBranchProtectionPriories')
  await send(t, 'repoEditBranchProtection', { path: { '*': 'release%2F*' } })
  await send(t, 'repoCreateStatus', { path: { sha: 'main' } })
  const release = await send(t, 'repoCreateRelease')
  const form = new FormData()
  form.set('attachment', new Blob(['hello\n']), 'hello.txt')
  const file = await prepare(t, 'alice', 'POST', `${REPO}/releases/${release.id}/assets`, form)
  await send(t, 'repoEditReleaseAttachment', { path: { id: release.id, attachment_id: file.id } })
  await send(t, 'repoEditRelease', { path: { id: release.id } })

  await send(t, 'lfsBatch')
  const oid = createHash('sha256').update('hello\n').digest('hex')
  await upload(t, `/alice/example.git/info/lfs/objects/${oid}/6`, 'hello\n')
  await send(t, 'lfsVerifyObject')
  const { lock } = await send(t, 'lfsCreateLock')
  await send(t, 'lfsVerifyLocks')
  await send(t, 'lfsDeleteLock', { path: { id: lock?.id } })

  await send(t, 'renderMarkdown')
  await send(t, 'renderMarkup')
  await send(t, 'renderMarkdownRaw')

  const hook = await send(t, 'repoCreateHook')
  await send(t, 'repoEditHook', { path: { id: hook.id } })
  await send(t, 'repoTransfer')

  const login = 'admin'
  await send(t, 'adminSchedulePlan', { login })
  await send(t, 'adminApplyPlan', { login })
  await send(t, 'adminSetModuleVersions', { login })
  await send(t, 'adminSetAuthority', { login })
  await send(t, 'adminSetConsensusState', { login, path: { last_height: 1000 } })
  await send(t, 'adminRebuild', { login })
  await send(t, 'adminMaintain', { login })

  for (const name of Object.keys(EXAMPLES)) t.ok(sent.has(name), `${name} is sent`)
})
