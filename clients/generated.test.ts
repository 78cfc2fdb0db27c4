/** Clients that two generators make of `/api/openapi.json`: they compile with `tsc --strict`, and make ten calls each. */
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startTestServer } from '../test/start-server.ts'
import { clientsFolder, ownFolder, type Ran, runClient, tokenOf } from './client.ts'

/** Types of `openapi-typescript` with `openapi-fetch`. */
const BY_PATH = `
import createClient from 'openapi-fetch'
import type { components, paths } from './api.js'

const [baseUrl = '', token = ''] = process.argv.slice(2)
const client = createClient<paths>({ baseUrl, headers: { authorization: \`Bearer \${token}\` } })

function found<T>({ data, error }: { data?: T; error?: components['schemas']['Error'] }): T {
  if (data === undefined) throw new Error(error?.message ?? 'no answer')
  return data
}
const created = found(
  await client.POST('/api/v1/user/repos', { body: { name: 'by-path', auto_init: true, default_branch: 'main' } }),
)
const path = { owner: created.owner.login, repo: created.name }
const at = (index: number) => ({ params: { path: { ...path, index } } })
const issue = found(await client.POST('/api/v1/repos/{owner}/{repo}/issues', { params: { path }, body: { title: 'It fails' } }))
const comment = found(
  await client.POST('/api/v1/repos/{owner}/{repo}/issues/{index}/comments', { ...at(issue.number), body: { body: 'Me too' } }),
)
const file = found(
  await client.POST('/api/v1/repos/{owner}/{repo}/contents/{filepath}', {
    params: { path: { ...path, filepath: 'docs/a.txt' } },
    body: { content: 'aGVsbG8K', message: 'Add a.txt', new_branch: 'topic' },
  }),
)
const pull = found(
  await client.POST('/api/v1/repos/{owner}/{repo}/pulls', { params: { path }, body: { head: 'topic', base: 'main', title: 'Add a.txt' } }),
)
const pulls = found(
  await client.GET('/api/v1/repos/{owner}/{repo}/pulls', { params: { path, query: { state: 'open', sort: 'oldest', page: 1 } } }),
)
const one = found(await client.GET('/api/v1/repos/{owner}/{repo}/pulls/{index}', at(pull.number)))
const earlier = found(
  await client.GET('/api/v1/repos/{owner}/{repo}/pulls/{index}/replay', { params: { ...at(pull.number).params, query: { revision: 0 } } }),
)
const merged = await client.POST('/api/v1/repos/{owner}/{repo}/pulls/{index}/merge', { ...at(pull.number), body: { Do: 'squash' } })
const history = await client.GET('/api/v1/repos/{owner}/{repo}/pulls/{index}/history', at(pull.number))
console.log(JSON.stringify({
  repository: created.full_name, issue: issue.number, comment: comment.body, file: file.content?.path,
  pulls: pulls.length, title: one.title, earlier: earlier.state, merged: merged.response.status, history: history.response.status,
}))
`

/** The functions of `swagger-typescript-api`, which have the names of the operations. */
const BY_NAME = `
import { Api, type Repository } from './api.js'

const [baseUrl = '', token = ''] = process.argv.slice(2)
const { api } = new Api({ baseUrl, baseApiParams: { headers: { authorization: \`Bearer \${token}\` } } })

const { data: created }: { data: Repository } = await api.createCurrentUserRepo({ name: 'by-name', auto_init: true, default_branch: 'main' })
const at = [created.owner.login, created.name] as const
const { data: issue } = await api.issueCreateIssue(...at, { title: 'It fails' })
const { data: comment } = await api.issueCreateComment(...at, issue.number, { body: 'Me too' })
const { data: file } = await api.repoCreateFile(...at, 'docs/a.txt', { content: 'aGVsbG8K', message: 'Add a.txt', new_branch: 'topic' })
const { data: pull } = await api.repoCreatePullRequest(...at, { head: 'topic', base: 'main', title: 'Add a.txt' })
const { data: pulls } = await api.repoListPullRequests(...at, { state: 'open', sort: 'oldest', page: 1 })
const { data: one } = await api.repoGetPullRequest(...at, pull.number)
const { data: earlier } = await api.pullReplay(...at, pull.number, { revision: 0 })
const merged = await api.repoMergePullRequest(...at, pull.number, { Do: 'squash' })
const history = await api.pullGetHistory(...at, pull.number)
console.log(JSON.stringify({
  repository: created.full_name, issue: issue.number, comment: comment.body, file: file.content?.path,
  pulls: pulls.length, title: one.title, earlier: earlier.state, merged: merged.status, history: history.status,
}))
`

const GENERATORS = [
  {
    name: 'openapi-typescript and openapi-fetch',
    generate: ['openapi-typescript', 'openapi.json', '-o', 'api.ts'],
    program: BY_PATH,
    repository: 'alice/by-path',
  },
  {
    name: 'swagger-typescript-api',
    generate: ['swagger-typescript-api', 'generate', '-p', 'openapi.json', '-o', '.', '-n', 'api.ts'],
    program: BY_NAME,
    repository: 'alice/by-name',
  },
]

const TSCONFIG = {
  compilerOptions: {
    strict: true,
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.iterable'],
    module: 'nodenext',
    types: [],
    outDir: 'built',
    rootDir: '.',
  },
  files: ['globals.d.ts', 'program.ts'],
}

const server = await startTestServer(t)
const description = await (await server.fetch(null, '/api/openapi.json')).text()

for (const { name, generate, program, repository } of GENERATORS) {
  t.test(`a client generated by ${name} compiles and makes ten calls`, async (t) => {
    const cwd = await ownFolder(t)
    await symlink(join(clientsFolder(), 'node_modules'), join(cwd, 'node_modules'))
    await writeFile(join(cwd, 'package.json'), '{ "type": "module" }')
    await writeFile(join(cwd, 'openapi.json'), description)
    await writeFile(join(cwd, 'tsconfig.json'), JSON.stringify(TSCONFIG))
    await writeFile(join(cwd, 'globals.d.ts'), 'declare const process: { argv: string[] }\n')
    await writeFile(join(cwd, 'program.ts'), program)
    const succeeds = async (what: string, run: Promise<Ran>) => {
      const { code, output } = await run
      t.equal(code, 0, `${what}: ${code === 0 ? '' : output.slice(-3000)}`)
      return output
    }
    const [generator = '', ...args] = generate
    await succeeds('generates', runClient(generator, args, { cwd }))
    await succeeds('compiles', runClient('tsc', ['-p', '.'], { cwd }))
    const token = await tokenOf(server, 'alice')
    const output = await succeeds(
      'calls',
      runClient(join(cwd, 'built/program.js'), [server.url, token], { cwd }),
    )
    t.match(JSON.parse(output), {
      repository,
      issue: 1,
      comment: 'Me too',
      file: 'docs/a.txt',
      pulls: 1,
      title: 'Add a.txt',
      earlier: 'open',
      merged: 200,
      history: 200,
    })
  })
}
