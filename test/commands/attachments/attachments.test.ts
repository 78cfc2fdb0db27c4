import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { isUuid } from '../../../src/storage/attachments/files.ts'
import { ADMIN_PASSWORD } from '../../server-template.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'
import { attachmentRepository, formWith, isStored, storedFiles } from './setup.ts'

const server = await startTestServer(t, { ATTACHMENT_MAX_BYTES: '1MiB', LOG_LEVEL: 'fatal' })
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])
const admin = await server.as('admin')
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const file = (name: string, content = 'text\n') => new File([content], name)

t.test(
  'attachments.1, attachments.8: the comment must exist, and its issue must be in the repository',
  async (t) => {
    const { say, pathOf } = await attachmentRepository(server, 'rule1')
    const elsewhere = await attachmentRepository(server, 'rule1-other')
    const id = await say()
    const other = await elsewhere.say()
    const gone = await say()
    const { data } = await alice.repos.issueCreateIssueCommentAttachment('alice', 'rule1', id, {
      attachment: file('a.txt'),
    })
    await alice.repos.issueDeleteComment('alice', 'rule1', gone)
    const odd = ['0', '-1', 'x', '1.5', '999999', '9223372036854775808', `${gone}`, `${other}`]
    for (const comment of odd) {
      const path = pathOf(id).replace(`comments/${id}`, `comments/${comment}`)
      t.equal((await server.fetch('alice', path)).status, 404, `list of ${comment}`)
      t.equal((await server.fetch('alice', `${path}/${data.id}`)).status, 404, `get of ${comment}`)
      const form = { method: 'POST', body: formWith('x', 'a.txt') }
      t.equal((await server.fetch('alice', path, form)).status, 404, `create at ${comment}`)
      const edit = { method: 'PATCH', body: '{"name":"b.txt"}' }
      t.equal((await server.fetch('alice', `${path}/${data.id}`, edit)).status, 404, `edit at ${comment}`)
      const remove = { method: 'DELETE' }
      t.equal((await server.fetch('alice', `${path}/${data.id}`, remove)).status, 404, `delete at ${comment}`)
    }
    t.same((await alice.repos.issueListIssueCommentAttachments('alice', 'rule1', id)).data, [data])
  },
)

t.test('attachments.2: the attachment must be in the repository and of that very comment', async (t) => {
  const { say, pathOf } = await attachmentRepository(server, 'rule2')
  const elsewhere = await attachmentRepository(server, 'rule2-other')
  const [first, second, third] = [await say(), await say(), await elsewhere.say()]
  const attach = async (repo: string, id: number) =>
    (await alice.repos.issueCreateIssueCommentAttachment('alice', repo, id, { attachment: file('a.txt') }))
      .data
  const mine = await attach('rule2', first)
  const others = [await attach('rule2', second), await attach('rule2-other', third)]
  const odd = [...others.map(({ id }) => `${id}`), '0', '-1', 'x', '999999', '9223372036854775808']
  for (const id of odd) {
    const path = pathOf(first, `/${id}`)
    t.equal((await server.fetch('alice', path)).status, 404, `get ${id}`)
    const edit = { method: 'PATCH', body: '{"name":"b.txt"}' }
    t.equal((await server.fetch('alice', path, edit)).status, 404, `edit ${id}`)
    t.equal((await server.fetch('alice', path, { method: 'DELETE' })).status, 404, `delete ${id}`)
  }
  const { data } = await server.anonymous.repos.issueGetIssueCommentAttachment(
    'alice',
    'rule2',
    first,
    mine.id ?? 0,
  )
  t.same(data, mine)
})

t.test('attachments.3: the poster who can write, repository admins and site admins', async (t) => {
  const { say, pathOf, post } = await attachmentRepository(server, 'rule3')
  await server.as('dave')
  await alice.repos.repoAddCollaborator('alice', 'rule3', 'dave', { permission: 'admin' })
  const byReader = await say('bob')
  const byWriter = await say('carol')
  const may: [login: string | null, comment: number, status: number, why: string][] = [
    [null, byReader, 401, 'nobody is signed in'],
    ['bob', byReader, 403, 'the poster can only read'],
    ['bob', byWriter, 403, 'neither poster nor writer'],
    ['carol', byReader, 403, 'a writer who is not the poster'],
    ['carol', byWriter, 201, 'the poster can write'],
    ['alice', byReader, 201, 'the owner'],
    ['dave', byReader, 201, 'a repository admin'],
    ['admin', byReader, 201, 'a site admin'],
  ]
  for (const [login, comment, status, why] of may) {
    const created = await post(login, comment, formWith('x', 'a.txt'))
    t.equal(created.status, status, `create: ${why}`)
    // An attachment that exists.
    const owned = created.status === 201 ? created : await post('admin', comment, formWith('x', 'a.txt'))
    const path = pathOf(comment, `/${owned.body.id}`)
    const edited = await server.fetch(login, path, { method: 'PATCH', body: '{"name":"b.txt"}' })
    t.equal(edited.status, status, `edit: ${why}`)
    const removed = await server.fetch(login, path, { method: 'DELETE' })
    t.equal(removed.status, status === 201 ? 204 : status, `delete: ${why}`)
  }
  const hidden = await attachmentRepository(server, 'rule3-hidden', { private: true })
  const comment = await hidden.say()
  for (const login of [null, 'bob']) {
    t.equal((await hidden.post(login, comment, formWith('x', 'a.txt'))).status, 404, 'not even a reader')
    t.equal((await server.fetch(login, hidden.pathOf(comment))).status, 404)
  }
  t.equal((await hidden.post('alice', comment, formWith('x', 'a.txt'))).status, 201)
})

t.test('attachments.4: stored under the name asked for, else the file’s own', async (t) => {
  const { say, post, events } = await attachmentRepository(server, 'rule4')
  const id = await say('carol')
  const before = (await carol.repos.issueGetComment('alice', 'rule4', id)).data
  const { data, status } = await carol.repos.issueCreateIssueCommentAttachment(
    'alice',
    'rule4',
    id,
    { attachment: file('own.txt', 'content\n') },
    { name: 'asked for.txt' },
  )
  t.equal(status, 201)
  t.match(data, {
    id: Number,
    name: 'asked for.txt',
    size: 8,
    download_count: 0,
    uuid: /^[0-9a-f-]{36}$/,
    browser_download_url: `${server.url}/attachments/${data.uuid}`,
  })
  t.equal((await post('carol', id, formWith('x', 'own.txt'), { query: '?name=' })).body.name, 'own.txt')
  const names: [given: string, stored: string][] = [
    ['../../etc/passwd.txt', 'passwd.txt'],
    ['C:\\Users\\carol\\a.txt', 'a.txt'],
    ['a\u0000b\r\n\u0085c.txt', 'abc.txt'],
    ['\u202egpj.txt', 'gpj.txt'],
    ['naïve 💩 “x”.txt', 'naïve 💩 “x”.txt'],
    [`${'y'.repeat(400)}.txt`, `${'y'.repeat(251)}.txt`],
  ]
  for (const [given, stored] of names) {
    const query = `?name=${encodeURIComponent(given)}`
    t.equal((await post('carol', id, formWith('x', 'own.txt'), { query })).body.name, stored)
  }
  t.equal((await post('carol', id, formWith('x', '..\\ü/ß.txt'))).body.name, 'ß.txt')

  const stored = await readFile(
    join(server.dataDir, 'attachments', `${data.uuid}`.slice(0, 2), `${data.uuid}`),
    'utf8',
  )
  t.equal(stored, 'content\n')
  // After the upload the comment is updated with its unchanged content.
  const comment = (await server.anonymous.repos.issueGetComment('alice', 'rule4', id)).data
  t.equal(comment.body, before.body)
  t.ok(`${comment.updated_at}` >= `${before.updated_at}`)
  t.same(comment.assets?.[0], data)
  t.same(
    (await events()).slice(1, 4).map(({ type }) => type),
    ['CommentAdded', 'AttachmentAdded', 'CommentEdited'],
  )
})

t.test('attachments.4: a file is allowed by its ending or by its content, or refused', async (t) => {
  const { say, post } = await attachmentRepository(server, 'types')
  const id = await say()
  const refused = await post('alice', id, formWith(PNG, 'a.exe'))
  t.equal(refused.status, 422)
  t.match(refused.body.message, /^attachment: .*not allowed/)
  t.equal((await post('alice', id, formWith('x', 'noending'))).status, 422)
  t.equal((await post('alice', id, formWith('x', 'a.txt'), { query: '?name=a.exe' })).status, 422)
  t.equal((await post('alice', id, formWith('x', 'a.exe'), { query: '?name=a.TXT' })).status, 201)
  t.equal((await post('alice', id, formWith('', 'empty.txt'))).body.size, 0)
  t.same(
    (await storedFiles(server)).filter((name) => !isUuid(name)),
    [],
    'nothing is on its way any more',
  )

  const strict = await startTestServer(t, { ATTACHMENT_ALLOWED_TYPES: 'image/*,text/plain' })
  const there = await attachmentRepository(strict, 'types')
  const comment = await there.say()
  t.equal((await there.post('alice', comment, formWith(PNG, 'a.exe'))).status, 201)
  t.equal((await there.post('alice', comment, formWith('plain', 'a'))).status, 201)
  t.equal((await there.post('alice', comment, formWith('<html>', 'a.png'))).status, 422)
  t.equal((await there.post('alice', comment, formWith('', 'a.png'))).status, 422)
  t.equal((await storedFiles(strict)).length, 2, 'nothing is left of the refused ones')
})

t.test('attachments.4: a request without the part is refused', async (t) => {
  const { say, post, events } = await attachmentRepository(server, 'missing')
  const id = await say()
  const before = await storedFiles(server)
  const text = new FormData()
  text.append('attachment', 'not a file')
  const type = (boundary: string) => ({ 'content-type': `multipart/form-data; boundary=${boundary}` })
  const start = '--b\r\nContent-Disposition: form-data; name="attachment"; filename="a.txt"\r\n\r\n'
  const cases: [what: string, body: RequestInit['body'], headers: Record<string, string>][] = [
    ['no body', null, {}],
    ['an empty form', new FormData(), {}],
    ['another part', formWith('x', 'a.txt', 'file'), {}],
    ['a field, not a file', text, {}],
    ['no file chosen', formWith('', ''), {}],
    ['JSON', '{"attachment":"x"}', { 'content-type': 'application/json' }],
    ['a form of the other kind', 'attachment=x', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['no boundary', `${start}x\r\n--b--\r\n`, { 'content-type': 'multipart/form-data' }],
    ['another boundary', `${start}x\r\n--b--\r\n`, type('c')],
    ['cut off in the file', `${start}half of it`, type('b')],
    ['cut off in the head', '--b\r\nContent-Disposition: form-data; na', type('b')],
    ['cut off behind the file', `${start}x\r\n--b\r\nContent-Disp`, type('b')],
    ['nothing in it', '--b--\r\n', type('b')],
    ['no multipart at all', 'hello', type('b')],
    ['an empty body', '', type('b')],
  ]
  for (const [what, body, headers] of cases) {
    const answer = await post('alice', id, body, { headers })
    t.equal(answer.status, 400, what)
    t.match(answer.body, { message: /./, url: /docs/ })
  }
  t.same(await storedFiles(server), before, 'nothing is left on disk')
  t.equal((await events()).length, 2)
})

t.test('attachments.4: only the first part of that name counts, others are ignored', async (t) => {
  const { say, post } = await attachmentRepository(server, 'parts')
  const id = await say()
  const form = new FormData()
  form.append('note', 'n'.repeat(100_000))
  form.append('other', new Blob(['o'.repeat(100_000)]), 'other.exe')
  form.append('attachment', new Blob(['first']), 'first.txt')
  form.append('attachment', new Blob(['second']), 'second.txt')
  form.append('last', '1')
  const { status, body } = await post('alice', id, form)
  t.equal(status, 201)
  t.match(body, { name: 'first.txt', size: 5 })
  t.equal((await alice.repos.issueListIssueCommentAttachments('alice', 'parts', id)).data.length, 1)
  const many = formWith('x', 'a.txt')
  for (let i = 0; i < 1000; i++) many.append(`field${i}`, '1')
  t.equal((await post('alice', id, many)).status, 400)
})

t.test('attachments.7: a file larger than allowed gives 413 and leaves nothing', async (t) => {
  const { say, post } = await attachmentRepository(server, 'large')
  const id = await say()
  const limit = 2 ** 20
  const before = await storedFiles(server)
  t.equal((await post('alice', id, formWith(Buffer.alloc(limit + 1), 'a.txt'))).status, 413)
  t.equal((await post('alice', id, formWith(Buffer.alloc(3 * limit), 'a.txt'))).status, 413)
  t.equal((await post('alice', id, formWith(Buffer.alloc(18 * limit), 'a.txt'))).status, 413, 'said at once')
  const besides = formWith('x', 'a.txt')
  for (let i = 0; i < 20; i++) besides.append(`file${i}`, new Blob([Buffer.alloc(limit)]), 'x.bin')
  t.equal((await post('alice', id, besides)).status, 413, 'a small file with much besides')
  t.same(await storedFiles(server), before)
  t.equal((await post('alice', id, formWith(Buffer.alloc(limit), 'a.txt'))).body.size, limit)
})

t.test('the limit also holds for a request without a length', async (t) => {
  const { say, pathOf } = await attachmentRepository(server, 'chunked')
  const id = await say()
  const before = await storedFiles(server)
  const admins = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`
  const part = (name: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"; filename="a.txt"\r\n\r\n`
  const small = `${part('attachment')}small\r\n`
  const starts: [what: string, start: string][] = [
    ['the file', part('attachment')],
    ['a file besides', part('other')],
    ['a file behind the one that counts', small + part('attachment')],
    ['a field behind it', `${small}--b\r\nContent-Disposition: form-data; name="note"\r\n\r\n`],
    ['a part with a head that never ends', `${small}--b\r\nX-Long: `],
    ['what comes before the first part', 'preamble\r\n'],
    ['what comes behind the last part', `${small}--b--\r\n`],
  ]
  for (const [what, start] of starts) {
    const headers = { 'content-type': 'multipart/form-data; boundary=b', authorization: admins }
    const asked = httpRequest(`${server.url}${pathOf(id)}`, { method: 'POST', headers })
    const answered = once(asked, 'response')
    asked.write(start)
    const block = Buffer.alloc(2 ** 18, 'x\r\n')
    // A client with its answer is not told about drained buffers.
    let isAnswered = false
    asked.once('response', () => {
      isAnswered = true
    })
    for (let i = 0; i < 120 && !isAnswered; i++) {
      if (!asked.write(block)) await Promise.race([once(asked, 'drain'), answered])
    }
    asked.end('\r\n--b--\r\n')
    const [answer] = await answered
    answer.resume()
    await once(answer, 'end')
    t.equal(answer.statusCode, 413, what)
  }
  t.same(await storedFiles(server), before)
})

t.test('a refused upload leaves its connection usable', async (t) => {
  const { say, pathOf } = await attachmentRepository(server, 'connection')
  const id = await say()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const sockets = new Set<unknown>()
  const authorization = `Basic ${Buffer.from('bob:password of bob').toString('base64')}`
  async function ask(method: string, path: string, user: object, body = ''): Promise<number> {
    const headers = { 'content-type': 'multipart/form-data; boundary=b', ...user }
    const asked = httpRequest(`${server.url}${path}`, { method, headers, agent })
    asked.once('socket', (socket) => sockets.add(socket))
    asked.end(body)
    const [answer] = await once(asked, 'response')
    answer.resume()
    await once(answer, 'end')
    return answer.statusCode
  }
  const start = '--b\r\nContent-Disposition: form-data; name="attachment"; filename="a.txt"\r\n\r\n'
  const large = `${start}${'x'.repeat(3 * 2 ** 20)}\r\n--b--\r\n`
  const admins = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`
  t.equal(await ask('POST', pathOf(id), { authorization: admins }, large), 413)
  t.equal(await ask('POST', pathOf(id), { authorization }, large), 403)
  t.equal(await ask('POST', pathOf(id), {}, large), 401)
  t.equal(await ask('POST', pathOf(id), { 'content-type': 'text/plain', authorization: admins }, large), 400)
  t.equal(await ask('POST', pathOf(999999), { authorization: admins }, large), 404)
  t.equal(await ask('GET', pathOf(id), {}), 200)
  t.equal(sockets.size, 1)
})

t.test('a client that disconnects during an upload leaves nothing', async (t) => {
  const { say, pathOf } = await attachmentRepository(server, 'away')
  const id = await say()
  const before = await storedFiles(server)
  const leaving = new AbortController()
  const head = '--b\r\nContent-Disposition: form-data; name="attachment"; filename="a.txt"\r\n\r\n'
  async function* body() {
    yield Buffer.from(head)
    for (;;) {
      yield Buffer.alloc(10_000)
      await until('the file is on its way', async () => (await storedFiles(server)).length > before.length)
      leaving.abort()
    }
  }
  const init = {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
    body: ReadableStream.from(body()),
    duplex: 'half' as const,
    signal: leaving.signal,
  }
  await t.rejects(server.fetch('alice', pathOf(id), init))
  await until('it is gone', async () => (await storedFiles(server)).length === before.length)
  t.same((await alice.repos.issueListIssueCommentAttachments('alice', 'away', id)).data, [])
})

t.test('attachments.5: the name is replaced when it is not empty', async (t) => {
  const { say, post, pathOf, events } = await attachmentRepository(server, 'rule5')
  const id = await say()
  const { body: made } = await post('alice', id, formWith(PNG, 'old.png'))
  const edited = await alice.repos.issueEditIssueCommentAttachment('alice', 'rule5', id, made.id, {
    name: '../new\u202e.png',
  })
  t.equal(edited.status, 201)
  t.same(edited.data, { ...made, name: 'new.png' })
  const path = pathOf(id, `/${made.id}`)
  t.same(JSON.parse(await (await server.fetch(null, path)).text()), edited.data)
  const recorded = (await events()).length
  for (const body of ['{"name":""}', '{}', '{"name":null}', '{"name":"new.png"}']) {
    const answer = await server.fetch('alice', path, { method: 'PATCH', body })
    t.equal(answer.status, 201, body)
    t.same(JSON.parse(await answer.text()), edited.data)
  }
  t.equal((await events()).length, recorded, 'without a change no event')
  for (const body of ['{"name":"a.exe"}', '{"name":"noending"}', '{"name":"///"}', '{"name":5}', '[]']) {
    t.equal((await server.fetch('alice', path, { method: 'PATCH', body })).status, 422, body)
  }
  t.equal((await server.fetch('alice', path, { method: 'PATCH', body: '{' })).status, 400)
})

t.test('attachments.6: DELETE removes the attachment and its stored file', async (t) => {
  const { say, post } = await attachmentRepository(server, 'rule6')
  const id = await say()
  const { body: stays } = await post('alice', id, formWith('x', 'a.txt'))
  const { body: goes } = await post('alice', id, formWith('y', 'b.txt'))
  t.ok(await isStored(server, goes.uuid))
  const remove = () => statusOf(alice.repos.issueDeleteIssueCommentAttachment('alice', 'rule6', id, goes.id))
  t.equal(await remove(), 204)
  t.notOk(await isStored(server, goes.uuid))
  t.ok(await isStored(server, stays.uuid))
  t.equal(await remove(), 404)
  t.equal((await server.fetch('alice', `/attachments/${goes.uuid}`)).status, 404)
  t.same((await bob.repos.issueListIssueCommentAttachments('alice', 'rule6', id)).data, [stays])
})

t.test('the files of a deleted comment or repository are deleted with it', async (t) => {
  const { say, post } = await attachmentRepository(server, 'going')
  const [first, second] = [await say(), await say()]
  const { body: a } = await post('alice', first, formWith('x', 'a.txt'))
  const { body: b } = await post('alice', second, formWith('y', 'b.txt'))
  await alice.repos.issueDeleteComment('alice', 'going', first)
  await until('its file is gone', async () => !(await isStored(server, a.uuid)))
  t.ok(await isStored(server, b.uuid))
  await alice.repos.repoDelete('alice', 'going')
  t.equal((await server.fetch('admin', `/attachments/${b.uuid}`)).status, 404)
  await until('its files are gone', async () => !(await isStored(server, b.uuid)))
})

t.test('an upload sent again with its Idempotency-Key is the same attachment', async (t) => {
  const { say, post, events } = await attachmentRepository(server, 'again')
  const id = await say()
  const send = (content: string, login = 'alice', query = '') =>
    post(login, id, formWith(content, 'a.txt'), { query, headers: { 'Idempotency-Key': 'upload-1' } })
  const before = (await storedFiles(server)).length
  const first = await send('once')
  t.equal(first.status, 201)
  const again = await Promise.all([send('once'), send('once')])
  for (const { status, body } of again) {
    t.equal(status, 201)
    t.same(body, first.body)
  }
  t.equal((await storedFiles(server)).length, before + 1, 'the file of the second request is removed')
  t.equal((await send('something else')).status, 422)
  t.equal((await storedFiles(server)).length, before + 1)
  t.not((await send('once', 'admin')).body.id, first.body.id, 'the key of another one is another key')
  t.same((await events()).map(({ type }) => type).filter((type) => type === 'AttachmentAdded').length, 2)
  await admin.repos.issueDeleteIssueCommentAttachment('alice', 'again', id, first.body.id)
  t.equal((await send('once')).status, 404, 'what was deleted does not come back')
  t.equal((await storedFiles(server)).length, before + 1)
  const long = { headers: { 'Idempotency-Key': 'k'.repeat(300) } }
  t.equal((await post('alice', id, formWith('x', 'a.txt'), long)).status, 400)
  t.equal((await storedFiles(server)).length, before + 1)
})

t.test('many uploads at the same time are all kept', async (t) => {
  const { say, post } = await attachmentRepository(server, 'crowd')
  const id = await say()
  const made = await Promise.all(
    Array.from({ length: 4 }, (_, i) => post('alice', id, formWith(`no. ${i}`, `${i}.txt`))),
  )
  t.same(
    made.map(({ status }) => status),
    [201, 201, 201, 201],
  )
  const { data } = await alice.repos.issueListIssueCommentAttachments('alice', 'crowd', id)
  t.same(data.map(({ name }) => name).sort(), ['0.txt', '1.txt', '2.txt', '3.txt'])
})

t.test('a token needs the scope issue', async (t) => {
  const { say, pathOf, post } = await attachmentRepository(server, 'scopes')
  const id = await say()
  const { body: made } = await post('alice', id, formWith('x', 'a.txt'))
  const tokenFor = async (scope: string) => {
    const body = JSON.stringify({ name: scope, scopes: [scope] })
    const answer = await server.fetch('alice', '/api/v1/users/alice/tokens', { method: 'POST', body })
    return { authorization: `token ${JSON.parse(await answer.text()).sha1}` }
  }
  const [repository, read, write] = await Promise.all(
    ['write:repository', 'read:issue', 'write:issue'].map(tokenFor),
  )
  const statuses = async (headers: Record<string, string> = {}) => [
    (await server.fetch(null, `/attachments/${made.uuid}`, { headers })).status,
    (await server.fetch(null, pathOf(id), { headers })).status,
    (await server.fetch(null, pathOf(id), { headers, method: 'POST', body: formWith('x', 'a.txt') })).status,
  ]
  t.same(await statuses(repository), [403, 403, 403])
  t.same(await statuses(read), [200, 200, 403])
  t.same(await statuses(write), [200, 200, 201])
})

t.test('a form that is compressed is 415 and leaves nothing, on every route for files', async (t) => {
  const { say, post } = await attachmentRepository(server, 'compressed', { others: false })
  const before = await storedFiles(server)
  const form = Buffer.from(
    '--x\r\nContent-Disposition: form-data; name="attachment"; filename="a.txt"\r\n\r\ntext\r\n--x--\r\n',
  )
  const headers = { 'content-type': 'multipart/form-data; boundary=x' }
  const id = await say()
  t.equal((await post('alice', id, form, { headers })).status, 201)
  const content = Buffer.from('a').toString('base64')
  await alice.repos.repoCreateFile('alice', 'compressed', 'a.txt', { content, message: 'a' })
  const { data: release } = await alice.repos.repoCreateRelease('alice', 'compressed', { tag_name: 'v1' })
  const repo = '/api/v1/repos/alice/compressed'
  const paths = [
    `${repo}/issues/comments/${id}/assets`,
    `${repo}/issues/1/assets`,
    `${repo}/releases/${release.id}/assets`,
  ]
  for (const path of paths) {
    for (const [coding, body] of [
      ['gzip', gzipSync(form)],
      ['deflate', deflateSync(form)],
      ['GZIP', form],
      ['br', form],
    ] as const) {
      const init = {
        method: 'POST',
        body: new Uint8Array(body),
        headers: { ...headers, 'content-encoding': coding },
      }
      t.equal((await server.fetch('alice', path, init)).status, 415, `${coding} ${path}`)
    }
    const plain = {
      method: 'POST',
      body: new Uint8Array(form),
      headers: { ...headers, 'content-encoding': 'identity' },
    }
    t.equal((await server.fetch('alice', path, plain)).status, 201, path)
  }
  t.equal((await storedFiles(server)).length, before.length + 4)
})
