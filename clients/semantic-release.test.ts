/** semantic-release with its plugin for Gitea: a tag, a release with notes, and a file of it. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { workTree } from '../test/git-client.ts'
import { startTestServer } from '../test/start-server.ts'
import { clientsFolder, runClient, tokenOf } from './client.ts'

t.test('semantic-release publishes releases with files', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'tool' })
  const url = server.gitUrl('alice', 'alice/tool')
  const work = await workTree(t, url)
  await work.git('checkout', '-q', '-B', 'main')
  const settings = {
    branches: ['main'],
    repositoryUrl: `${server.url}/alice/tool.git`,
    plugins: [
      '@semantic-release/commit-analyzer',
      '@semantic-release/release-notes-generator',
      ['@saithodev/semantic-release-gitea', { giteaUrl: server.url, assets: [{ path: 'dist/tool.txt' }] }],
    ],
  }
  await mkdir(join(work.dir, 'dist'))
  await writeFile(join(work.dir, 'dist', 'tool.txt'), 'the tool\n')
  await writeFile(join(work.dir, '.gitignore'), 'dist\n')
  const token = await tokenOf(server, 'alice')
  async function release(message: string, file: string): Promise<string> {
    await work.commit(message, { [file]: message, '.releaserc.json': JSON.stringify(settings) })
    await work.git('push', '-q', 'origin', 'main')
    const { code, output } = await runClient('semantic-release', ['--no-ci'], {
      cwd: work.dir,
      env: {
        GITEA_TOKEN: token,
        GIT_CREDENTIALS: `alice:${token}`,
        NODE_PATH: join(clientsFolder(), 'node_modules'),
        GIT_AUTHOR_NAME: 'Release',
        GIT_AUTHOR_EMAIL: 'release@example.org',
        GIT_COMMITTER_NAME: 'Release',
        GIT_COMMITTER_EMAIL: 'release@example.org',
      },
    })
    if (process.env.SHOW === '1') console.error(output)
    t.equal(code, 0, 'it ends well')
    return output
  }

  t.match(await release('feat: begin', 'a.txt'), /Published Gitea release/)
  const { data: first } = await alice.repos.repoGetLatestRelease('alice', 'tool')
  t.match(first, { tag_name: 'v1.0.0', draft: false, prerelease: false, body: /begin/ })
  t.match(first.assets, [{ name: 'tool.txt', size: 9 }])
  const file = await fetch(first.assets?.[0]?.browser_download_url ?? '')
  t.equal(await file.text(), 'the tool\n')
  t.match(await work.git('ls-remote', '--tags', 'origin'), /refs\/tags\/v1\.0\.0/)

  await release('fix: a fault', 'b.txt')
  t.match((await alice.repos.repoGetLatestRelease('alice', 'tool')).data, {
    tag_name: 'v1.0.1',
    body: /fault/,
  })
  t.match(await release('docs: no release for this', 'c.txt'), /no new version is released/)
  t.equal((await alice.repos.repoListReleases('alice', 'tool')).data.length, 2)
})
