/** The API describes itself: what `/api/openapi.json` says about each operation, parameter, field and answer. */
import { readFileSync } from 'node:fs'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import t from 'tap'
import { operationOf } from '../../src/api/documentation/operations.ts'
import { canShowPast } from '../../src/queries/history/moments/time-travel.ts'
import { ROWS, statusesIn } from '../auth/route-rows.ts'
import { startTestServer } from '../start-server.ts'
import { operationsOf, readDocumentation } from './documented.ts'

const MAX_BYTES = 500_000

const server = await startTestServer(t)
const text = await (await server.fetch(null, '/api/openapi.json')).text()
const documentation = readDocumentation(text)
const operations = operationsOf(documentation)
const document: {
  paths: Record<string, object>
  tags: { name: string }[]
  components: { schemas: Record<string, object>; parameters: Record<string, object>; responses: object }
} = JSON.parse(text)

const shapeOf = (path: string) => path.replaceAll(/\{[^}]*\}/g, '{}')

/** The operations of `gitea-js`: id, summary and tags by method and path. */
function operationsOfGitea(): Map<string, { id: string; summary: string; tags: string[] }> {
  const types = readFileSync(new URL('../../node_modules/gitea-js/dist/index.d.ts', import.meta.url), 'utf8')
  const pattern = /@tags (.+)\n\s+\* @name (\w+)\n\s+\* @summary (.+)\n\s+\* @request (\w+):(\S+)/g
  return new Map(
    [...types.matchAll(pattern)].map(([, tags = '', name = '', summary = '', method = '', path = '']) => [
      `${method.toLowerCase()} /api/v1${shapeOf(path)}`,
      { id: `${name.charAt(0).toLowerCase()}${name.slice(1)}`, summary, tags: tags.split(', ') },
    ]),
  )
}

t.test(
  "operationId, summary and tags are Gitea's where Gitea has the operation, our own otherwise",
  async (t) => {
    const gitea = operationsOfGitea()
    const ids = operations.map(({ operation }) => operation.operationId)
    t.equal(new Set(ids).size, ids.length, 'each operationId is unique')
    let compared = 0
    for (const { name, method, path, operation } of operations) {
      t.match(operation, { operationId: /^[a-z]\w+$/, summary: /\w/, tags: [/\w/] }, name)
      const theirs = gitea.get(`${method} ${shapeOf(path)}`)
      if (theirs === undefined) continue
      compared += 1
      t.equal(operation.operationId, theirs.id, name)
      t.equal(operation.summary, theirs.summary.trim().replace(/\.$/, ''), name)
      t.ok(theirs.tags.includes(operation.tags[0] ?? ''), name)
    }
    t.ok(compared > 290, `${compared} operations of Gitea`)
  },
)

/** The places of fields without a description. */
function undescribed(value: unknown, place: string): string[] {
  if (typeof value !== 'object' || value === null) return []
  const fields =
    'properties' in value && 'type' in value && value.type === 'object'
      ? Object.entries(Object(value.properties))
      : []
  return [
    ...fields.flatMap(([name, field]) => (Object(field).description ? [] : [`${place}.${name}`])),
    ...Object.entries(value).flatMap(([key, part]) => undescribed(part, `${place}/${key}`)),
  ]
}

/** The descriptions of parameters and fields, with their names. */
function descriptionsIn(value: unknown): [name: string, description: string][] {
  if (typeof value !== 'object' || value === null) return []
  const own = 'properties' in value ? Object.entries(Object(value.properties)) : []
  return [...own, ...Object.entries(value).filter(([, part]) => Object(part).in !== undefined)]
    .map(([name, { description }]): [string, string] => [name, `${description}`])
    .concat(Object.values(value).flatMap(descriptionsIn))
}

t.test('every parameter and every field has a description', async (t) => {
  for (const [name, parameter] of Object.entries(document.components.parameters)) {
    t.match(parameter, { description: /\w/ }, `parameter ${name}`)
  }
  t.strictSame(undescribed(document.components.schemas, ''), [])
  t.strictSame(undescribed(document.paths, ''), [])
})

t.test('no description only repeats the name, or leaves the noun open', async (t) => {
  const all = [...descriptionsIn(document.components), ...descriptionsIn(document.paths)]
  t.ok(all.length > 1000, `${all.length} descriptions`)
  for (const [name, description] of all) {
    const words = description.toLowerCase().match(/[a-z]+/g) ?? []
    const known = name.toLowerCase().split(/[_-]/)
    t.notOk(
      words.every((word) => known.includes(word) || known.includes(word.replace(/s$/, ''))),
      `${name}: ${description}`,
    )
    t.notMatch(description, /\{\}|\bresource\b/, name)
    t.match(description, /^([A-Z`]|true|false|text\/event-stream)/, `${name} begins with a capital letter`)
  }
})

t.test('every status has a description', async (t) => {
  for (const { name, operation } of operations) {
    for (const [status, response] of Object.entries(operation.responses)) {
      t.match(response, { description: /\w/ }, `${name} ${status}`)
      t.notMatch(response, { description: 'Default Response' }, `${name} ${status}`)
    }
  }
})

t.test("components.schemas have Gitea's names, and operations refer to them", async (t) => {
  const names = Object.keys(document.components.schemas)
  const types = readFileSync(new URL('../../node_modules/gitea-js/dist/index.d.ts', import.meta.url), 'utf8')
  const ofGitea = names.filter((name) => types.includes(`interface ${name} {`))
  t.ok(ofGitea.length > 85, `${ofGitea.length} of ${names.length}`)
  const wanted = [
    'PullRequest',
    'CreatePullRequestOption',
    'Issue',
    'Repository',
    'User',
    'MergePullRequestOption',
  ]
  for (const name of wanted) t.match(text, `"$ref":"#/components/schemas/${name}"`, name)
})

t.test(
  'enums name the values of Do, state and sort; integers are integers; required fields are named',
  async (t) => {
    const { schemas } = document.components
    t.match(schemas.CreateIssueOption, { required: ['title'] })
    t.match(JSON.stringify(schemas.MergePullRequestOption), '"squash"', 'Do')
    const pulls = documentation.paths['/api/v1/repos/{owner}/{repo}/pulls']?.get
    const schemaOf = (name: string) => pulls?.parameters?.find((one) => one.name === name)?.schema
    t.match(schemaOf('state'), { enum: ['open', 'closed', 'all'] })
    t.match(schemaOf('sort'), { enum: ['oldest', 'recentupdate'] })
    t.match(schemaOf('page'), { type: 'integer' })
    t.match(schemas.PullRequest, { properties: { additions: { type: 'integer' } } })
  },
)

t.test('security names the scope that each operation needs', async (t) => {
  const { paths } = documentation
  t.match(paths['/api/v1/repos/{owner}/{repo}/issues']?.post, {
    security: [{ token: ['write:issue'] }, { basic: [] }],
  })
  t.match(paths['/api/v1/user']?.get, { security: [{ token: ['read:user'] }] })
  for (const { name, operation } of operations) t.ok(Array.isArray(operation.security), name)
})

t.test('security admits anonymous callers exactly where the table of routes lets them in', async (t) => {
  const alice = await server.as('alice')
  await alice.orgs.orgCreate({ username: 'open', visibility: 'public' })
  await alice.orgs.orgPublicizeMember('open', 'alice')
  const { data: label } = await alice.orgs.orgCreateLabel('open', { name: 'bug', color: '#d73a4a' })
  const documented = new Map(
    operations.map(({ operation }) => [operation.operationId, operation.security ?? []]),
  )
  const values: Record<string, string> = { org: 'open', username: 'alice', id: `${label.id}` }
  /** Whether anonymous callers read a route of a public organization: those of the table are private. */
  const readsOpen = async (url: string) =>
    (
      await server.fetch(
        null,
        url.replaceAll(/:(\w+)/g, (_, name) => values[name] ?? ''),
      )
    ).ok
  let compared = 0
  for (const [name, { who }] of Object.entries(ROWS)) {
    const [method = '', url = ''] = name.split(' ')
    const operation = operationOf(method, url)
    if (operation === undefined) continue
    const [statuses = []] = statusesIn(who)
    const [anonymous = 0] = statuses
    // A pull request that is not merged is 404 to everybody.
    const isLetIn =
      anonymous < 400 ||
      statuses.every((status) => status === 404) ||
      (method === 'GET' && url.includes('/orgs/:org') && (await readsOpen(url)))
    const security = documented.get(operation.id) ?? []
    const isAdmitted = security.length === 0 || security.some((one) => Object.keys(one).length === 0)
    t.equal(isAdmitted, isLetIn, `${name}: ${who}`)
    compared += 1
  }
  t.equal(compared, operations.length)
})

t.test(
  'every GET that can show the past has the parameter at, the header Mergelog-At, and 404, 410 and 422',
  async (t) => {
    const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` })
    const at = Object.entries(document.components.parameters).filter(([, one]) =>
      /^Moment that the answer shows/.test(`${Object(one).description}`),
    )
    t.equal(at.length, 1, 'one component for all operations')
    let compared = 0
    for (const name of Object.keys(ROWS)) {
      const [method = '', url = ''] = name.split(' ')
      const id = operationOf(method, url)?.id
      const found = Object.values(document.paths).flatMap((item) =>
        Object.values(item).flatMap((one) =>
          Object(one).operationId === id ? [{ item, operation: one }] : [],
        ),
      )
      const [only] = found
      if (id === undefined || only === undefined) continue
      const isPast = method === 'GET' && canShowPast(url)
      const parameters = [Object(only.item).parameters ?? [], only.operation.parameters ?? []].flat()
      const text = JSON.stringify(parameters)
      t.equal(text.includes(JSON.stringify(ref('parameters', at[0]?.[0] ?? ''))), isPast, `${name}: at`)
      t.equal(text.includes(JSON.stringify(ref('parameters', 'Mergelog-At'))), isPast, `${name}: header`)
      t.equal(only.operation.responses['410'] !== undefined, isPast, `${name}: 410`)
      if (!isPast) continue
      compared += 1
      t.has(only.operation.responses, { 404: {}, 410: {}, 422: {} }, name)
      const successes = Object.entries(Object(only.operation.responses)).filter(([status]) =>
        /^2/.test(status),
      )
      t.ok(successes.length > 0, name)
      for (const [, answer] of successes) {
        t.has(answer, { headers: { 'Mergelog-At': ref('headers', 'At') } }, name)
      }
    }
    t.ok(compared > 90, `${compared} operations`)
  },
)

t.test('path parameters have legal names', async (t) => {
  for (const path of Object.keys(document.paths)) {
    for (const [, name = ''] of path.matchAll(/\{([^}]*)\}/g)) t.match(name, /^[A-Za-z]\w*$/, path)
  }
})

t.test('the document has at most 500,000 bytes', async (t) => {
  t.ok(Buffer.byteLength(text) <= MAX_BYTES, `${Buffer.byteLength(text)} bytes`)
})

t.test("it passes Redocly's recommended rules without an error", async (t) => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: text, config })
  const errors = problems.filter(({ severity }) => severity === 'error')
  t.strictSame(
    errors.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
    [],
  )
})

t.test(
  "the documentation page has the product's name and look, needs no other host, and lists history, replay and upgrade first",
  async (t) => {
    const answer = await server.fetch(null, '/api/docs')
    const page = await answer.text()
    t.match(page, '<title>Mergelog API</title>')
    t.match(page, 'theme/mergelog.css')
    t.notMatch(page, /(?:src|href)="https?:/)
    t.match(await (await server.fetch(null, '/api/docs/static/theme/mergelog.js')).text(), 'bar.href = "/"')
    t.match(answer.headers.get('content-security-policy'), /'self'/)
    for (const [, asset = ''] of page.matchAll(/(?:src|href)="([^"]+)"/g)) {
      t.equal((await server.fetch(null, asset)).status, 200, asset)
    }
    t.strictSame(
      document.tags.slice(0, 3).map(({ name }) => name),
      ['history', 'replay', 'upgrade'],
    )
  },
)
