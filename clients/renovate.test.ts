/** Renovate, as people run it: found repositories, onboarding, updates, dashboard, and a merge when checks succeed. */
import t from 'tap'
import { workTree } from '../test/git-client.ts'
import { startTestServer } from '../test/start-server.ts'
import { until } from '../test/until.ts'
import { ownFolder, runClient, tokenOf } from './client.ts'
import { startRegistry } from './npm-registry.ts'

const BOT = 'renovate-bot'

t.test('Renovate onboards a repository, updates it, and merges when its checks succeed', async (t) => {
  const server = await startTestServer(t)
  const registry = await startRegistry(t, {
    'left-thing': ['1.0.0', '1.1.0'],
    'right-thing': ['2.0.0', '3.0.0'],
  })
  const alice = await server.as('alice')
  await server.as(BOT)
  const token = await tokenOf(server, BOT)

  async function hosted(name: string, files: Record<string, string>) {
    await alice.user.createCurrentUserRepo({ name, default_branch: 'main', private: true })
    await alice.repos.repoAddCollaborator('alice', name, BOT, { permission: 'write' })
    const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
    await work.git('checkout', '-q', '-B', 'main')
    await work.commit('Begin', files)
    await work.git('push', '-q', 'origin', 'main')
    return work
  }
  const rules = {
    labels: ['dependencies'],
    assignees: ['alice'],
    dependencyDashboard: true,
    prHourlyLimit: 0,
    rangeStrategy: 'bump',
    packageRules: [
      { matchUpdateTypes: ['minor'], automerge: true, platformAutomerge: true, automergeStrategy: 'squash' },
    ],
  }
  await hosted('presets', { 'default.json': JSON.stringify(rules) })
  const manifest = { name: 'app', dependencies: { 'left-thing': '1.0.0', 'right-thing': '2.0.0' } }
  const work = await hosted('app', {
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    '.npmrc': `registry=${registry}\n`,
  })
  await alice.repos.issueCreateLabel('alice', 'app', { name: 'dependencies', color: '#0366d6' })

  const folder = await ownFolder(t)
  async function renovate(): Promise<string> {
    const { code, output } = await runClient('renovate', [], {
      cwd: folder,
      env: {
        LOG_LEVEL: 'debug',
        RENOVATE_PLATFORM: 'gitea',
        RENOVATE_ENDPOINT: `${server.url}/`,
        RENOVATE_TOKEN: token,
        RENOVATE_AUTODISCOVER: 'true',
        RENOVATE_AUTODISCOVER_FILTER: 'alice/app',
        RENOVATE_ONBOARDING_CONFIG: JSON.stringify({ extends: ['local>alice/presets'] }),
        RENOVATE_BASE_DIR: folder,
        RENOVATE_CACHE_DIR: `${folder}/cache`,
        RENOVATE_GIT_AUTHOR: 'Renovate <renovate@example.org>',
      },
    })
    if (process.env.SHOW === '1') console.error(output)
    t.equal(code, 0, 'it ends well')
    t.notMatch(output, /"level":(50|60)|ERROR:|FATAL:/, 'without errors')
    // The registry of the test is on this machine.
    const unknown = /WARN: (?!.*(re2|RE2|GITHUB_COM_TOKEN|github\.com|internal host))/i
    t.notMatch(output, unknown, 'and without warnings')
    return output
  }
  const pulls = async (state: 'open' | 'closed' = 'open') =>
    (await alice.repos.repoListPullRequests('alice', 'app', { state })).data

  const first = await renovate()
  t.match(first, /alice\/app/, 'it finds the repository')
  const [onboarding] = await pulls()
  t.match(onboarding, {
    title: 'Configure Renovate',
    head: { ref: 'renovate/configure' },
    user: { login: BOT },
  })
  t.match(onboarding?.body, /local>alice\/presets|left-thing/)
  await alice.repos.repoMergePullRequest('alice', 'app', onboarding?.number ?? 0, { Do: 'merge' })

  // A repository that never had a status has no checks to wait for.
  const { data: main } = await alice.repos.repoGetBranch('alice', 'app', 'main')
  await alice.repos.repoCreateStatus('alice', 'app', main.commit?.id ?? '', {
    context: 'ci',
    state: 'success',
  })

  await renovate()
  const updates = await pulls()
  const byBranch = new Map(updates.map((pull) => [pull.head?.ref, pull]))
  t.same([...byBranch.keys()].sort(), ['renovate/left-thing-1.x', 'renovate/right-thing-3.x'])
  for (const pull of updates) {
    t.same(
      pull.labels?.map(({ name }) => name),
      ['dependencies'],
      'a label of the hosted preset',
    )
  }
  const major = byBranch.get('renovate/right-thing-3.x')
  t.same(
    major?.assignees?.map(({ login }) => login),
    ['alice'],
    'an assignee of it',
  )
  const { data: issues } = await alice.repos.issueListIssues('alice', 'app', {
    type: 'issues',
    state: 'open',
  })
  t.match(issues, [{ title: 'Dependency Dashboard', body: /right-thing/ }])

  const minor = byBranch.get('renovate/left-thing-1.x')
  const sha = minor?.head?.sha ?? ''
  t.equal((await pulls()).length, 2, 'nothing is merged before its checks')
  await alice.repos.repoCreateStatus('alice', 'app', sha, { state: 'success', context: 'ci' })
  await until('it is merged', async () => (await pulls()).length === 1)
  await work.git('pull', '-q', 'origin', 'main')
  t.match(await work.git('show', 'HEAD:package.json'), /"left-thing": "1\.1\.0"/)
  t.match(await work.git('show', 'HEAD:package.json'), /"right-thing": "2\.0\.0"/)

  await renovate()
  t.same(
    (await pulls()).map(({ head }) => head?.ref),
    ['renovate/right-thing-3.x'],
    'it finds its own work again',
  )
  await alice.repos.repoMergePullRequest('alice', 'app', major?.number ?? 0, { Do: 'rebase' })
  await renovate()
  t.same(await pulls(), [])
})
