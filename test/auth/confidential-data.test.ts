// In a process of its own: it changes the umask.
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { listen } from '../queries/history-client.ts'
import { startTestServer } from '../start-server.ts'

const { server, alice, call, repository } = await startPulls(t)

async function tokenOf(login: string, ...scopes: string[]): Promise<{ authorization: string }> {
  const name = randomBytes(4).toString('hex')
  const { body } = await call(login, 'POST', `users/${login}/tokens`, { name, scopes })
  return { authorization: `token ${body.sha1}` }
}

t.test("a token that only reads repositories sees no issue's words in a repository's history", async (t) => {
  const { branch, open, name } = await repository(t, 'words')
  await branch('topic', { a: 'a' })
  const pull = await open('topic', { title: 'A pull request' })
  await alice.repos.issueCreateIssue('alice', name, { title: 'SECRET title', body: 'SECRET body' })
  await alice.repos.issueEditIssue('alice', name, 2, { title: 'SECRET again' })
  await alice.repos.issueCreateComment('alice', name, 2, { body: 'SECRET comment' })
  await alice.repos.issueCreateComment('alice', name, pull, { body: 'SECRET on the pull request' })
  await alice.repos.issueCreateLabel('alice', name, { name: 'SECRET', color: '#aabbcc' })
  await alice.repos.issueCreateMilestone('alice', name, { title: 'SECRET' })
  const [narrow, wide] = [
    await tokenOf('alice', 'read:repository'),
    await tokenOf('alice', 'read:repository', 'read:issue'),
  ]
  const path = `repos/alice/${name}`
  for (const history of [`${path}/history`, `${path}/pulls/${pull}/history`]) {
    for (const accept of ['application/json', 'application/x-ndjson']) {
      const get = async (token: object, query = '') =>
        call(null, 'GET', `${history}?limit=50${query}`, undefined, { accept, ...token })
      const [few, all] = [await get(narrow), await get(wide)]
      t.match(few, { status: 200, text: /A pull request/ }, `${history} as ${accept}`)
      t.notMatch(few.text, /SECRET/)
      t.match(all, { status: 200, text: /SECRET/ })
      if (accept === 'application/json') {
        t.equal(few.body.length, Number(few.headers.get('x-total-count')), 'nor are they counted')
        t.ok(few.body.length < all.body.length)
      }
      const typed = await get(narrow, '&type=CommentAdded')
      t.notMatch(typed.text, /SECRET/)
      t.equal(typed.headers.get('x-total-count') ?? '0', '0')
    }
    const [few, all] = [
      await listen(t, server, null, `/${history}`, narrow),
      await listen(t, server, null, `/${history}`, wide),
    ]
    await all.has(2)
    const before = all.received.length
    await alice.repos.issueCreateComment('alice', name, pull, { body: 'SECRET and live' })
    await alice.repos.repoEditPullRequest('alice', name, pull, { title: `Edited for ${history}` })
    await all.has(before + 2)
    while (!few.text().includes('Edited for')) await few.has(few.received.length + 1)
    t.notMatch(few.text(), /SECRET/)
    t.match(all.text(), /SECRET and live/)
    few.close()
    all.close()
  }
  const page = `/ui/alice/${name}/pulls/${pull}`
  t.equal((await server.fetch(null, page, { headers: narrow })).status, 403, 'the page')
  t.equal((await server.fetch(null, page, { headers: wide })).status, 200)
  const replay = await call(null, 'GET', `${path}/issues/2/replay?revision=0`, undefined, narrow)
  t.equal(replay.status, 403, 'replay')
  const ofPull = await call(null, 'GET', `${path}/pulls/${pull}/replay?revision=0`, undefined, narrow)
  t.match(ofPull, { status: 200, text: /A pull request/ })
  t.notMatch(ofPull.text, /SECRET/)
})

t.test('strangers do not list collaborators', async (t) => {
  const { name, writer } = await repository(t, 'people')
  await writer('bob', 'read')
  const statuses = async (login: string | null, path: string) =>
    (await call(login, 'GET', `repos/alice/${name}/collaborators${path}`)).status
  t.same([await statuses(null, ''), await statuses(null, '/bob')], [401, 401])
  t.same([await statuses('carol', ''), await statuses('carol', '/bob')], [403, 403])
  t.equal(await statuses('carol', '/bob/permission'), 403)
  t.equal(await statuses('carol', '/carol/permission'), 200, 'their own permission')
  for (const login of ['bob', 'alice', 'admin']) {
    t.same([await statuses(login, ''), await statuses(login, '/bob')], [200, 204], login)
  }
  await alice.repos.repoEdit('alice', name, { private: true })
  t.same([await statuses(null, ''), await statuses('carol', '')], [404, 404])
})

t.test('files of the data directory are accessible only to their owner', async (t) => {
  const before = process.umask(0o022)
  const dataDir = await mkdtemp(join(tmpdir(), 'mergelog-private-'))
  t.teardown(() => {
    process.umask(before)
    return rm(dataDir, { recursive: true, force: true })
  })
  /** The permission bits of group and others. */
  const open = async () => {
    const found: string[] = []
    for (const path of await readdir(dataDir, { recursive: true })) {
      if (((await stat(join(dataDir, path))).mode & 0o077) !== 0) found.push(path)
    }
    return found
  }
  const first = await startTestServer(t, { DATA_DIR: dataDir, ADMIN_PASSWORD: 'correct horse battery' })
  const made = await first.fetch('admin', '/api/v1/user/repos', {
    method: 'POST',
    body: JSON.stringify({ name: 'own', auto_init: true }),
  })
  t.equal(made.status, 201)
  t.same(await open(), [], 'umask 077, for the children of git too')
  await first.stop()

  for (const name of ['events.db', 'secrets.db', 'git']) await chmod(join(dataDir, name), 0o755)
  const second = await startTestServer(t, { DATA_DIR: dataDir })
  t.same(await open(), [], 'copied files are narrowed at start')
  await second.stop()
})
