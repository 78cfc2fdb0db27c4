/** What was erased is nowhere any more: not in answers, not in the past, and in no file of the data directory. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { READ_MODELS } from '../../../src/projections/views.ts'
import { textKeyCollection } from '../../../src/rights/text-keys.ts'
import { verifyServer } from '../../../src/verify/verify.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'

const ERASED = /^erased by alice on \d{4}-\d\d-\d\d$/

/** The marker of a text as a file may have it. */
const formsOf = (marker: string) => [
  Buffer.from(marker),
  Buffer.from(marker, 'utf16le'),
  Buffer.from(JSON.stringify(marker).slice(1, -1)),
  Buffer.from(Buffer.from(marker).toString('base64url')),
  // A search keeps words in lower case.
  Buffer.from(marker.toLowerCase()),
]

/** The files below a directory that hold a marker. */
async function filesWith(directory: string, marker: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const found: string[] = []
  for (const file of files) {
    const content = await readFile(file)
    if (formsOf(marker).some((form) => content.includes(form))) found.push(file)
  }
  return found
}

async function verified(test: Test, { services }: TestServer) {
  const scratchDir = test.testdir()
  const { stored: events, keys } = services.texts
  const { readStore } = services
  return verifyServer({ events, keys, readStore, models: READ_MODELS, scratchDir })
}

/** An issue and a comment with a file, all with markers, among others with long texts. */
async function posted(server: TestServer, repo: string) {
  const call = async (method: string, path: string, body?: unknown, login: string | null = 'alice') => {
    const init = { method, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const answer = await server.fetch(
      login,
      path.startsWith('/') ? path : `/api/v1/repos/alice/${path}`,
      init,
    )
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.startsWith('application/json') === true
    return { status: answer.status, text, body: isJson && text !== '' ? JSON.parse(text) : undefined }
  }
  await server.as('alice')
  await call('POST', '/api/v1/user/repos', { name: repo, auto_init: true })
  const issues = `${repo}/issues`
  const { body: issue } = await call('POST', issues, { title: 'Title Xq7TITLE', body: 'Body "Xq7BODY" ä' })
  const path = `${issues}/${issue.number}`
  await call('PATCH', path, { title: 'Other Xq7SECOND' })
  const ids: number[] = []
  for (let i = 0; i < 12; i++) {
    // Long texts move from page to page while others are edited.
    const text = `comment ${i} ${i === 3 ? 'Xq7COMMENT' : ''} ${'words and words '.repeat(40 * (i % 3))}`
    const { body } = await call('POST', `${path}/comments`, { body: text })
    ids.push(body.id)
  }
  for (const [i, id] of ids.entries()) {
    if (i === 3) continue
    await call('PATCH', `${issues}/comments/${id}`, { body: `longer ${'more text '.repeat(60 + i)}` })
  }
  const comment = ids[3] ?? 0
  const form = new FormData()
  form.append('attachment', new Blob(['Xq7CONTENT in a file']), 'Xq7FILE.txt')
  const upload = await server.fetch('alice', `/api/v1/repos/alice/${issues}/comments/${comment}/assets`, {
    method: 'POST',
    body: form,
  })
  const file: { id: number; uuid: string } = JSON.parse(await upload.text())
  return { call, issues, path, number: issue.number, comment, file, comments: ids }
}

async function eraseEverything(t: Test, server: TestServer, repo: string, dataDir: string) {
  const { call, issues, path, comment, file, number } = await posted(server, repo)
  const last = async () => {
    const { body } = await call('GET', `${path}/history?limit=50`)
    return body.at(-1)
  }

  t.test('one comment', async (t) => {
    t.not((await filesWith(join(dataDir, 'attachments'), 'Xq7CONTENT')).length, 0)
    t.equal((await call('POST', `${path}/erase`, { comment })).status, 204)
    const shown = await call('GET', `${issues}/comments/${comment}`)
    t.match(shown.body.body, ERASED)
    t.match(shown.body.assets, [{ name: ERASED, uuid: file.uuid }])
    const download = await call('GET', `/attachments/${file.uuid}`)
    t.equal(download.status, 404)
    t.match(download.text, /the file was erased by alice on/)
    for (const marker of ['Xq7COMMENT', 'Xq7FILE', 'Xq7CONTENT']) {
      t.strictSame(await filesWith(dataDir, marker), [], `${marker} is in no file`)
      t.notMatch((await call('GET', `${path}/history?limit=50`)).text, marker)
    }
    t.match((await call('GET', path)).body, { title: 'Other Xq7SECOND' }, 'other texts stay')
    t.match(await last(), { type: 'ErasureFinished', data: { texts: 3, files: 1 } })
  })

  t.test('all texts of an issue', async (t) => {
    t.equal((await call('POST', `${path}/erase`, {})).status, 204)
    t.match((await call('GET', path)).body, { title: ERASED, body: ERASED })
    t.match((await call('GET', `${path}/replay?revision=0`)).body, { title: ERASED, body: ERASED })
    t.match((await call('GET', `${path}/replay/diff?from=0&to=1`)).status, 200)
    const found = async (q: string) => (await call('GET', `${issues}?state=all&q=${q}`)).body.length
    t.equal(await found('Xq7SECOND'), 0)
    t.equal(await found('erased'), 0, 'nor is it found by what is shown instead')
    const page = await call('GET', `/alice/${repo}/issues/${number}`)
    const timeline = await call('GET', `${path}/timeline?limit=50`)
    t.match(
      timeline.body.find(({ type }: { type: string }) => type === 'change_title'),
      {
        old_title: ERASED,
        new_title: ERASED,
      },
    )
    const lines = await server.fetch('alice', `/api/v1/repos/alice/${path}/history`, {
      headers: { accept: 'application/x-ndjson' },
    })
    const past = [page.text, timeline.text, await lines.text(), (await call('GET', `${path}/comments`)).text]
    for (const marker of ['Xq7TITLE', 'Xq7BODY', 'Xq7SECOND', 'more text']) {
      for (const text of past) t.notOk(text.includes(marker), marker)
      t.strictSame(await filesWith(dataDir, marker), [], `${marker} is in no file`)
    }
  })

  t.test('it can be repeated, and a later text is new', async (t) => {
    const { revision } = await last()
    t.equal((await call('POST', `${path}/erase`, {})).status, 204)
    t.equal((await call('POST', `${path}/erase`, { comment })).status, 204)
    t.equal((await call('POST', `${path}/erase`)).status, 204)
    t.equal((await last()).revision, revision, 'nothing is left to erase, so nothing is recorded')
    t.equal((await call('PATCH', path, { title: 'A new title' })).status, 201)
    t.equal((await call('GET', path)).body.title, 'A new title')
    t.match((await last()).data, { oldTitle: ERASED, title: 'A new title' })
    t.equal((await call('PATCH', `${issues}/comments/${comment}`, { body: 'new words' })).status, 200)
    t.equal((await call('GET', `${issues}/comments/${comment}`)).body.body, 'new words')
  })

  t.test('who may, and what is refused', async (t) => {
    t.equal((await call('POST', `${path}/erase`, {}, null)).status, 401)
    t.equal((await call('POST', `${path}/erase`, {}, 'bob')).status, 403)
    t.equal((await call('POST', `${issues}/999/erase`, {})).status, 404)
    t.equal((await call('POST', `${path}/erase`, { comment: 999_999 })).status, 404)
    t.equal((await call('POST', `${path}/erase`, { comment: 'one' })).status, 422)
    t.equal((await call('GET', path)).body.title, 'A new title', 'nothing was changed')
  })

  t.test('verify is sound and counts what was erased', async (t) => {
    const report = await verified(t, server)
    t.match(report, { sound: true, log: { lostTexts: undefined } })
    t.ok(report.log.erased > 20, `${report.log.erased} are counted`)
  })
}

t.test('erasing on the embedded stores', async (t) => {
  const server = await startTestServer(t)
  await t.test('texts', (t) => eraseEverything(t, server, 'embedded', server.dataDir))

  await t.test('a key that nobody erased is missed', async (t) => {
    const { call, path } = await posted(server, 'missed')
    const { stored, keys } = server.services.texts
    let key: string | undefined
    for await (const { data } of stored.readAll({ direction: 'backwards', maxCount: 3 })) {
      if ('sealed' in data && typeof data.sealed === 'object' && data.sealed !== null && 'key' in data.sealed)
        key = `${data.sealed.key}`
    }
    await server.services.secrets.apply(
      [{ op: 'delete', collection: textKeyCollection, id: key ?? '' }],
      new Map(),
    )
    keys.forget()
    const report = await verified(t, server)
    t.equal(report.sound, false)
    t.match(report.log.lostTexts, [{ problem: 'the key of its text is missing, and nobody has erased it' }])
    t.equal((await call('POST', `${path}/erase`, {})).status, 204)
    t.match(await verified(t, server), { sound: true }, 'what is erased then is not missed')
  })
})

t.test('erasing on EventStoreDB and MongoDB, from another node', async (t) => {
  const stores = await sharedStores(t)
  const server = await startTestServer(t, stores)
  const other = await startTestServer(t, { ...stores, NODE_NAME: 'other' })
  const { call, path, comment, issues } = await posted(server, 'shared')
  const fromOther = async (at: string) => (await other.fetch('alice', `/api/v1/repos/alice/${at}`)).text()
  const shown = [
    path,
    `${path}/replay?revision=0`,
    `${path}/history?limit=50`,
    `${path}/timeline`,
    `${path}/comments`,
  ]
  for (const at of shown) await fromOther(at)
  t.match(await fromOther(`${path}/history?limit=50`), 'Xq7TITLE')
  t.equal((await call('POST', `${path}/erase`, {})).status, 204)
  for (const at of [...shown, `${issues}/comments/${comment}`]) {
    t.notMatch(await fromOther(at), /Xq7/, `${at} of the other node`)
  }
  t.strictSame(await filesWith(stores.DATA_DIR, 'Xq7CONTENT'), [])
  t.match(await verified(t, server), { sound: true })
})
