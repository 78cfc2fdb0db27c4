import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Issue } from 'gitea-js'
import t from 'tap'
import { readLogReferences } from '../../../src/maintenance/backup/log-references.ts'
import { removeOrphans } from '../../../src/processes/attachments/attachment-removal.ts'
import { openAttachmentFiles } from '../../../src/storage/attachments/files.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'
import { formWith, isStored, type Wire } from './setup.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'fatal', ATTACHMENT_MAX_BYTES: '1MiB' })
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

/** A repository of alice's with an issue of bob's; carol may write. */
async function withIssue(name: string) {
  const { data } = await alice.user.createCurrentUserRepo({ name })
  await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'write' })
  const path = `/api/v1/repos/alice/${name}/issues/1/assets`
  await bob.repos.issueCreateIssue('alice', name, { title: 'First' })
  const post = async (login: string | null, body: RequestInit['body'], headers = {}) => {
    const answer = await server.fetch(login, path, { method: 'POST', body: body ?? null, headers })
    const wire: Wire = JSON.parse(await answer.text())
    return { status: answer.status, body: wire }
  }
  return { repoId: data.id ?? 0, path, post }
}

t.test('the poster of an issue and writers add, rename and delete its files', async (t) => {
  const { path, post } = await withIssue('own')
  const form = { attachment: new File(['text\n'], 'a.txt') }
  const made = await bob.repos.issueCreateIssueAttachment('alice', 'own', 1, form, { name: 'asked.txt' })
  t.equal(made.status, 201)
  const { data: file } = made
  t.match(file, {
    name: 'asked.txt',
    size: 5,
    browser_download_url: `${server.url}/attachments/${file.uuid}`,
  })
  t.equal((await post('carol', formWith('x', 'b.txt'))).status, 201)
  t.equal((await post('dave', formWith('x', 'c.txt'))).status, 403)
  t.equal((await post(null, formWith('x', 'c.txt'))).status, 401)
  t.equal((await post('bob', formWith('x', 'c.exe'))).status, 422, 'the types that comments may have')
  t.equal((await post('bob', formWith(Buffer.alloc(1_100_000), 'c.txt'))).status, 413)
  const { data: issue } = await alice.repos.issueGetIssue('alice', 'own', 1)
  t.same(
    issue.assets?.map(({ name }) => name),
    ['asked.txt', 'b.txt'],
  )
  t.same((await bob.repos.issueListIssueAttachments('alice', 'own', 1)).data, issue.assets)
  t.equal(await (await server.fetch(null, `/attachments/${file.uuid}`)).text(), 'text\n')
  const id = file.id ?? 0
  t.equal(
    (await bob.repos.issueEditIssueAttachment('alice', 'own', 1, id, { name: 'new.txt' })).data.name,
    'new.txt',
  )
  t.equal(await statusOf(bob.repos.issueEditIssueAttachment('alice', 'own', 1, id, { name: 'new.exe' })), 422)
  t.equal((await carol.repos.issueGetIssueAttachment('alice', 'own', 1, id)).data.name, 'new.txt')
  t.equal((await server.fetch('dave', `${path}/${id}`, { method: 'DELETE' })).status, 403)
  t.equal((await carol.repos.issueDeleteIssueAttachment('alice', 'own', 1, id)).status, 204)
  t.equal(await statusOf(bob.repos.issueGetIssueAttachment('alice', 'own', 1, id)), 404)
  t.equal((await server.fetch('alice', `/attachments/${file.uuid}`)).status, 404)
  t.notOk(await isStored(server, file.uuid ?? ''))
  t.equal((await server.fetch('bob', path.replace('/1/', '/7/'))).status, 404)
})

t.test('many files at once are all kept; a repeated request is one file', async (t) => {
  const { post, path } = await withIssue('many')
  const made = await Promise.all(
    Array.from({ length: 8 }, (_, i) => post('bob', formWith(`${i}`, `${i}.txt`))),
  )
  t.ok(made.every(({ status }) => status === 201))
  const again = () => post('bob', formWith('x', 'again.txt'), { 'Idempotency-Key': 'file-1' })
  const [first, second] = [await again(), await again()]
  t.same([first.status, second.body], [201, first.body])
  const page = await server.fetch(null, `${path}?limit=2&page=5`)
  t.equal(JSON.parse(await page.text()).length, 1)
  t.equal(page.headers.get('x-total-count'), '9')
})

t.test('an erasure of the issue removes its files, and shows their names as erased', async (t) => {
  const { post, path, repoId } = await withIssue('erased')
  const { body: file } = await post('bob', formWith('secret', 'secret-plan.txt'))
  const erase = { method: 'POST', body: '{"all":true}' }
  t.equal((await server.fetch('alice', '/api/v1/repos/alice/erased/issues/1/erase', erase)).status, 204)
  t.notOk(await isStored(server, file.uuid))
  const gone = await server.fetch('bob', `/attachments/${file.uuid}`)
  t.equal(gone.status, 404)
  t.match(await gone.text(), /erased by alice/)
  t.match(await (await server.fetch('bob', path)).text(), /erased by alice on/)
  const history = await server.fetch('alice', '/api/v1/repos/alice/erased/issues/1/history')
  t.notMatch(await history.text(), 'secret-plan')
  const { repositories } = await readLogReferences(server.services.events)
  t.notOk(repositories.get(repoId)?.attachments.has(file.uuid), 'a backup needs it no more')
})

t.test('its files go with a repository, and a start keeps them until then', async (t) => {
  const { post, repoId } = await withIssue('going')
  const { body: file } = await post('bob', formWith('x', 'a.txt'))
  const { repositories } = await readLogReferences(server.services.events)
  t.ok(repositories.get(repoId)?.attachments.has(file.uuid), 'a backup has it')
  const stray = randomUUID()
  const directory = join(server.dataDir, 'attachments')
  await mkdir(join(directory, stray.slice(0, 2)), { recursive: true })
  await writeFile(join(directory, stray.slice(0, 2), stray), 'stray')
  await removeOrphans({ ...server.services, attachments: await openAttachmentFiles(directory) })
  t.same([await isStored(server, file.uuid), await isStored(server, stray)], [true, false])
  await alice.repos.repoDelete('alice', 'going')
  t.equal((await server.fetch('admin', `/attachments/${file.uuid}`)).status, 404)
  await until('its file is gone', async () => !(await isStored(server, file.uuid)))
})

t.test('lists of issues show their files', async (t) => {
  const { post } = await withIssue('listed')
  await post('bob', formWith('x', 'a.txt'))
  const { data }: { data: Issue[] } = await alice.repos.issueListIssues('alice', 'listed')
  t.same(
    data.map(({ assets }) => assets?.map(({ name }) => name)),
    [['a.txt']],
  )
})
