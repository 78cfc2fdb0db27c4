/** Backstage: its reader of files, trees and what has changed, and the action that publishes a repository. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { workTree } from '../test/git-client.ts'
import { startTestServer } from '../test/start-server.ts'
import { load, ownFolder, tokenOf } from './client.ts'

/** What is used of `@backstage/backend-defaults/urlReader`. */
interface Reader {
  readUrl(url: string): Promise<{ buffer(): Promise<Buffer> }>
  readTree(
    url: string,
    options?: { etag?: string },
  ): Promise<{ etag: string; files(): Promise<{ path: string; content(): Promise<Buffer> }[]> }>
  search(url: string): Promise<{ files: { url: string; content(): Promise<Buffer> }[] }>
}

t.test('Backstage reads files and trees of a private repository', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'catalog', private: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/catalog'))
  await work.git('checkout', '-q', '-B', 'main')
  await work.commit('Begin', { 'catalog-info.yaml': 'kind: Component\n' })
  await work.git('checkout-index', '-q', '--prefix=docs/', 'catalog-info.yaml')
  const tip = await work.commit('Documents', { 'mkdocs.yml': 'site_name: Catalog\n' })
  await work.git('push', '-q', 'origin', 'main')

  const { ConfigReader } = load('@backstage/config')
  const { UrlReaders } = load('@backstage/backend-defaults/urlReader')
  const { host } = new URL(server.url)
  const readerWith = (credentials: object): Reader => {
    const gitea = [{ host, baseUrl: server.url, ...credentials }]
    const config = new ConfigReader({
      backend: { workingDirectory: workingDirectory },
      integrations: { gitea },
    })
    const quiet = () => undefined
    const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => logger }
    return UrlReaders.default({ logger, config })
  }
  const workingDirectory = await ownFolder(t)
  const url = (path: string, name = 'catalog') => `${server.url}/alice/${name}/src/branch/main/${path}`

  for (const credentials of [
    { username: 'alice', password: 'password of alice' },
    { password: await tokenOf(server, 'alice') },
  ]) {
    const reader = readerWith(credentials)
    const file = await reader.readUrl(url('catalog-info.yaml'))
    t.equal((await file.buffer()).toString(), 'kind: Component\n')
    const tree = await reader.readTree(url(''))
    t.equal(tree.etag, tip)
    const files = await tree.files()
    t.same(files.map(({ path }) => path).sort(), [
      'catalog-info.yaml',
      'docs/catalog-info.yaml',
      'mkdocs.yml',
    ])
    const docs = await (await reader.readTree(url('docs'))).files()
    t.same(
      docs.map(({ path }) => path),
      ['catalog-info.yaml'],
      'a part of the tree',
    )
    await t.rejects(reader.readTree(url(''), { etag: tip }), { name: 'NotModifiedError' })
    const [found] = (await reader.search(url('mkdocs.yml'))).files
    t.equal((await found?.content())?.toString(), 'site_name: Catalog\n')
    t.same((await reader.search(url('missing.yml'))).files, [])
    await t.rejects(reader.readUrl(url('missing.yml')), { name: 'NotFoundError' })
    await t.rejects(reader.readTree(url('', 'nothing')), { name: 'NotFoundError' })
  }
  const stranger = readerWith({ password: await tokenOf(server, 'bob') })
  await t.rejects(stranger.readUrl(url('catalog-info.yaml')), { name: 'NotFoundError' })
})

/** What is used of an action of Backstage's scaffolder. */
interface Action {
  id: string
  handler(context: object): Promise<void>
}

t.test('Backstage publishes a repository of a template: publish:gitea', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.orgs.orgCreate({ username: 'team' })
  const { ConfigReader } = load('@backstage/config')
  const { ScmIntegrations } = load('@backstage/integration')
  const { createPublishGiteaAction } = load('@backstage/plugin-scaffolder-backend-module-gitea')
  const { host } = new URL(server.url)
  const credentials = { username: 'alice', password: 'password of alice' }
  const config = new ConfigReader({
    integrations: { gitea: [{ host, baseUrl: server.url, ...credentials }] },
    scaffolder: { defaultAuthor: { name: 'Scaffolder', email: 'scaffolder@example.org' } },
  })
  const integrations = ScmIntegrations.fromConfig(config)
  const action: Action = createPublishGiteaAction({ integrations, config })
  t.equal(action.id, 'publish:gitea')

  const workspacePath = await ownFolder(t)
  await writeFile(join(workspacePath, 'catalog-info.yaml'), 'kind: Component\n')
  await mkdir(join(workspacePath, 'docs'))
  await writeFile(join(workspacePath, 'docs/index.md'), '# Service\n')
  async function publish(owner: string, repo: string): Promise<Map<string, unknown>> {
    const outputs = new Map<string, unknown>()
    const quiet = () => undefined
    await action.handler({
      input: { repoUrl: `${host}?owner=${owner}&repo=${repo}`, description: 'A service' },
      workspacePath,
      logger: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      output: (name: string, value: unknown) => outputs.set(name, value),
    })
    return outputs
  }

  const outputs = await publish('team', 'service')
  const { data: repository } = await alice.repos.repoGet('team', 'service')
  t.match(repository, { description: 'A service', private: false, empty: false, default_branch: 'main' })
  const { data: branch } = await alice.repos.repoGetBranch('team', 'service', 'main')
  t.match(branch.commit, { id: outputs.get('commitHash'), author: { name: 'Scaffolder' } })
  t.match(branch.commit?.message, /^initial commit\n\nChange-Id: I/)
  const { data: files } = await alice.repos.getTree('team', 'service', 'main', { recursive: true })
  t.same(
    files.tree?.filter(({ type }) => type === 'blob').map(({ path }) => path),
    ['catalog-info.yaml', 'docs/index.md'],
  )
  t.equal(outputs.get('remoteUrl'), `${server.url}/team/service.git`)
  const contents = await fetch(String(outputs.get('repoContentsUrl')))
  t.equal(contents.status, 200, 'the link that people get leads somewhere')

  await t.rejects(publish('team', 'service'), /409/, 'a name that is taken')
  await t.rejects(publish('nobody', 'service'), /nobody do not exist/, 'an organization that does not exist')
})
