/** `UPDATE_DOCS=1` regenerates `docs/errors.md`. */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ERROR_CODES } from '../../src/errors/error-codes.ts'
import { startTestServer } from '../start-server.ts'
import { readDocumentation } from './documented.ts'

const PAGE = fileURLToPath(new URL('../../docs/errors.md', import.meta.url))

const server = await startTestServer(t)
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })

const { paths, components } = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())

t.test('api.errors.1: every error has a stable code, listed in the documentation', async (t) => {
  const rows = Object.entries(ERROR_CODES).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`)
  t.strictSame(rows, rows.toSorted(), 'in order')
  const table = ['| code | meaning |', '| --- | --- |', ...rows, ''].join('\n')
  const page = await readFile(PAGE, 'utf8')
  const before = page.slice(0, page.indexOf('| code |'))
  if (process.env.UPDATE_DOCS !== undefined) await writeFile(PAGE, `${before}${table}`)
  t.equal(await readFile(PAGE, 'utf8'), `${before}${table}`, 'docs/errors.md')
  t.match(components, { schemas: { Error: { properties: { code: { enum: Object.keys(ERROR_CODES) } } } } })

  const repo = '/api/v1/repos/alice/app'
  const cases: [login: string | null, method: string, path: string, body: string | null, code: string][] = [
    [null, 'POST', '/api/v1/user/repos', '{}', 'unauthenticated'],
    ['alice', 'POST', '/api/v1/user/repos', '{', 'invalid_request'],
    ['alice', 'POST', '/api/v1/user/repos', '{}', 'invalid_fields'],
    ['alice', 'POST', '/api/v1/user/repos', '{"name":"app"}', 'repository_exists'],
    ['alice', 'POST', '/api/v1/user/repos', '{"name":"a/b"}', 'unprocessable'],
    ['alice', 'GET', '/api/v1/repos/alice/none', null, 'not_found'],
    ['alice', 'GET', '/api/v1/nowhere', null, 'route_not_found'],
    ['alice', 'DELETE', '/api/v1/user', null, 'method_not_allowed'],
    ['alice', 'POST', `${repo}/branches`, '{"new_branch_name":"main"}', 'branch_exists'],
    ['alice', 'DELETE', `${repo}/branches/main`, null, 'default_branch'],
    ['alice', 'GET', '/api/v1/admin/users', null, 'forbidden'],
  ]
  for (const [login, method, path, body, code] of cases) {
    const answer = await server.fetch(login, path, { method, body })
    t.match(await answer.json(), { message: String, code }, `${method} ${path} ${body}`)
  }
})

t.test('the url of an error leads to the documentation of that operation', async (t) => {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  const places = operations.map(
    ({ operationId, tags }) => `${server.url}/api/docs#/${tags[0]}/${operationId}`,
  )
  t.equal(new Set(places).size, operations.length, 'each operation has a name of its own')
  const refused: [method: string, path: string, place: string][] = [
    ['POST', '/api/v1/user/repos', 'repository/createCurrentUserRepo'],
    ['GET', '/api/v1/repos/alice/none/pulls/1/', 'repository/repoGetPullRequest'],
    ['HEAD', '/api/v1/repos/alice/none/pulls/1', 'repository/repoGetPullRequest'],
    ['GET', '/api/v1/repos/alice/none/issues/1', 'issue/issueGetIssue'],
    ['GET', '/api/v1/repos/alice/none/branches/a/b', 'repository/repoGetBranch'],
  ]
  for (const [method, path, place] of refused) {
    const answer = await server.fetch('alice', path, { method })
    const url = `${server.url}/api/docs#/${place}`
    t.ok(places.includes(url), url)
    if (method !== 'HEAD') t.match(await answer.json(), { url })
  }
  const nowhere = await server.fetch('alice', '/api/v1/nowhere')
  t.match(await nowhere.json(), { url: /\/api\/docs$/ }, 'without an operation, to all of them')
  const page = await (await server.fetch(null, '/api/docs/static/swagger-initializer.js')).text()
  t.match(page, /"deepLinking": ?true/, 'the page opens at the operation')
})
