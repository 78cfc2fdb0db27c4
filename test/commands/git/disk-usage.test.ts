import { readdir, rename } from 'node:fs/promises'
import t from 'tap'
import { Type } from 'typebox'
import { checked, checkOf } from '../../../src/storage/checked-json.ts'
import { mergelog } from '../../cli/command-line.ts'
import { tryGit } from '../../git/client.ts'
import { workTree } from '../../git-client.ts'
import { ADMIN_PASSWORD, startTestServer, statusOf, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const QUOTA = 400 * 1024

/** Reads the size of a repository as a site admin, once it is measured and satisfies the condition. */
async function usageOf(server: TestServer, name: string, holds: (usage: Usage) => boolean): Promise<Usage> {
  let found: Usage | undefined
  await until(`${name} is measured`, async () => {
    const rows = await rowsOf(await server.fetch('admin', '/api/v1/admin/repos?limit=50'))
    found = rows.find(({ full_name }) => full_name === name)
    return found !== undefined && found.measured_at !== '' && holds(found)
  })
  if (found === undefined) throw new Error(`${name} is not measured`)
  return found
}

const isUsages = checkOf(
  Type.Array(
    Type.Object({
      full_name: Type.String(),
      size: Type.Integer(),
      attachments_size: Type.Integer(),
      measured_at: Type.String(),
    }),
  ),
)
const rowsOf = async (answer: Response): Promise<Usage[]> => checked(isUsages, await answer.json())

interface Usage {
  full_name: string
  size: number
  attachments_size: number
  measured_at: string
}

/** Incompressible bytes. */
const noise = (bytes: number) =>
  Buffer.from(Array.from({ length: bytes }, () => Math.floor(Math.random() * 256))).toString('base64')

t.test(
  'repositories have a size, site admins see the largest repositories first, and quotas are enforced',
  async (t) => {
    const server = await startTestServer(t, { MAX_OWNER_BYTES: `${QUOTA}` })
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'small', auto_init: true })
    await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
    const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
    await work.commit('Add noise', { 'noise.txt': noise(100 * 1024) })
    await work.git('push', '-q', 'origin', 'main')

    const app = await usageOf(server, 'alice/app', ({ size }) => size > 100)
    const small = await usageOf(server, 'alice/small', ({ size }) => size > 0)
    t.ok(app.size < 250 && small.size < 50, `${app.size} and ${small.size} KiB`)
    const answer = await server.fetch('admin', '/api/v1/admin/repos?limit=1')
    t.match(await answer.json(), [
      { full_name: 'alice/app', owner: 'alice', size: app.size, attachments_size: 0 },
    ])
    t.equal(answer.headers.get('x-total-count'), '2')
    t.equal((await server.fetch('alice', '/api/v1/admin/repos')).status, 403)
    t.equal((await server.fetch(null, '/api/v1/admin/repos')).status, 401)
    t.match((await alice.repos.repoGet('alice', 'app')).data, { size: app.size })
    t.match((await alice.user.userCurrentListRepos()).data, [{ size: app.size }, { size: small.size }])

    // An attachment counts for the owner, not for the size of the repository.
    const { data: issue } = await alice.repos.issueCreateIssue('alice', 'app', { title: 'Files' })
    const { data: comment } = await alice.repos.issueCreateComment('alice', 'app', issue.number ?? 0, {
      body: 'x',
    })
    const attach = (bytes: number) =>
      alice.repos.issueCreateIssueCommentAttachment('alice', 'app', comment.id ?? 0, {
        attachment: new File([new Uint8Array(bytes)], 'zeros.txt'),
      })
    const { data: file } = await attach(100 * 1024)
    const counted = await usageOf(server, 'alice/app', (usage) => usage.attachments_size > 0)
    t.match(counted, { size: app.size, attachments_size: 100 })

    t.equal(await statusOf(attach(300 * 1024)), 413)
    const kept = async () => (await readdir(`${server.dataDir}/attachments/incoming`)).length
    t.equal(await kept(), 0, 'nothing of it stays')
    await work.commit('Add more noise', { 'more.txt': noise(200 * 1024) })
    const push = await tryGit(work.dir, ['push', 'origin', 'main'])
    t.not(push.code, 0)
    t.match(push.stderr, /the quota of alice is used up: 409600 bytes in all repositories together/)
    t.equal(
      await statusOf(alice.repos.createFork('alice', 'app', { name: 'again' })),
      409,
      'a fork of its own',
    )
    const bob = await server.as('bob')
    t.equal(await statusOf(bob.repos.createFork('alice', 'app', {})), 202, 'another owner has room')

    // A user over the quota may still delete things.
    await alice.repos.issueDeleteIssueCommentAttachment('alice', 'app', comment.id ?? 0, file.id ?? 0)
    await usageOf(server, 'alice/app', (usage) => usage.attachments_size === 0)
    await work.git('push', '-q', 'origin', 'main')
    const full = await usageOf(server, 'alice/app', ({ size }) => size > app.size + 190)
    t.ok(full.size < 400)
    // A transfer needs space in the quota of the new owner.
    await bob.repos.repoEdit('bob', 'app', { name: 'mine' })
    await usageOf(server, 'bob/mine', ({ size }) => size > 100)
    const admin = await server.as('admin')
    t.equal(await statusOf(admin.repos.repoTransfer('alice', 'app', { new_owner: 'bob' })), 413)
    t.equal((await alice.repos.repoGet('alice', 'app')).data.owner?.login, 'alice', 'it is not moved')
    await alice.repos.repoDelete('alice', 'app')
    await until(
      'the record is gone',
      async () => (await server.services.diskUsage.largest({ limit: 10 })).total === 2,
    )
    await alice.user.createCurrentUserRepo({ name: 'next' })
    await usageOf(server, 'alice/next', ({ size }) => size > 0)
  },
)

t.test(
  'without space on the disk, pushes, files, forks and new repositories are refused, and nothing else',
  async (t) => {
    const server = await startTestServer(t)
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
    const { data: issue } = await alice.repos.issueCreateIssue('alice', 'app', { title: 'Files' })
    const { data: comment } = await alice.repos.issueCreateComment('alice', 'app', issue.number ?? 0, {
      body: 'x',
    })
    const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
    const { dataDir } = server
    await server.stop()

    const FULL = { DATA_DIR: dataDir, MIN_FREE_BYTES: '8000TiB' }
    const nearlyFull = await startTestServer(t, FULL)
    await work.git('remote', 'set-url', 'origin', nearlyFull.gitUrl('alice', 'alice/app'))
    await work.commit('Add a file', { 'a.txt': 'a' })
    await work.git('branch', 'topic', 'HEAD~')
    const push = await tryGit(work.dir, ['push', 'origin', 'main'])
    t.match(push, { stderr: /the server's disk is nearly full; nothing was changed/ })
    t.not(push.code, 0)
    const post = async (login: string, path: string, body: string | FormData) =>
      (await nearlyFull.fetch(login, `/api/v1${path}`, { method: 'POST', body })).status
    t.equal(await post('alice', '/user/repos', JSON.stringify({ name: 'next' })), 507)
    t.equal(await post('bob', '/repos/alice/app/forks', JSON.stringify({})), 507)
    const form = new FormData()
    form.set('attachment', new File(['x'], 'x.txt'))
    t.equal(await post('alice', `/repos/alice/app/issues/comments/${comment.id}/assets`, form), 507)
    t.equal(await post('alice', '/repos/alice/app/issues', JSON.stringify({ title: 'Still works' })), 201)
    await work.git('fetch', '-q', 'origin')
    await nearlyFull.stop()
  },
)

t.test(
  'mergelog maintain repacks with and without a running server, and refuses a repository that is not there',
  async (t) => {
    const server = await startTestServer(t)
    const { dataDir: DATA_DIR, url: PUBLIC_URL } = server
    const alice = await server.as('alice')
    for (const name of ['app', 'other']) await alice.user.createCurrentUserRepo({ name, auto_init: true })
    const packs = async (id: number) => {
      const names = await readdir(`${DATA_DIR}/git/${id}.git/objects/pack`)
      return names.filter((name) => name.endsWith('.bitmap')).length
    }
    const environment = { DATA_DIR, PUBLIC_URL, ADMIN_PASSWORD }
    const one = await mergelog(['maintain', 'Alice/app', '--json'], environment)
    t.match(one, { code: 0, stderr: '' })
    t.match(JSON.parse(one.stdout), { maintained: [{ repository: 'alice/app', bytes_after: Number }] })
    t.same([await packs(1), await packs(2)], [1, 0])
    t.match(await mergelog(['maintain', 'alice/none'], environment), {
      code: 1,
      stderr: /repository not found/,
    })
    t.match(await mergelog(['maintain'], { DATA_DIR, PUBLIC_URL }), {
      code: 1,
      stderr: /ADMIN_PASSWORD is needed/,
    })
    const post = (login: string) => server.fetch(login, '/api/v1/admin/maintenance', { method: 'POST' })
    t.equal((await post('alice')).status, 403)

    await server.stop()
    const rest = await mergelog(['maintain'], environment)
    t.match(rest, { code: 0, stderr: '' })
    t.match(rest.stdout, /alice\/app 0\.\d MiB, was 0\.\d MiB\nalice\/other 0\.\d MiB/)
    t.same([await packs(1), await packs(2)], [1, 1])
    t.match(await mergelog(['maintain', 'alice/none'], environment), {
      code: 1,
      stderr: /there is no repository alice\/none/,
    })
    await rename(`${DATA_DIR}/git/2.git`, `${DATA_DIR}/git/2.git.away`)
    t.match(await mergelog(['maintain'], environment), { code: 0 }, 'one that has no files is passed over')
  },
)
