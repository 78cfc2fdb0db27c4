/** Setup of erasure tests: texts with markers, and a search for them. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { verifyServer } from '../../../../src/maintenance/verify/verify.ts'
import { READ_MODELS } from '../../../../src/projections/views/views.ts'
import { startTestServer, type TestServer } from '../../../start-server.ts'

export const ERASED = /^erased by alice on \d{4}-\d\d-\d\d$/

/** The forms of a marker in files. */
const formsOf = (marker: string) => [
  Buffer.from(marker),
  Buffer.from(marker, 'utf16le'),
  Buffer.from(JSON.stringify(marker).slice(1, -1)),
  Buffer.from(Buffer.from(marker).toString('base64url')),
  // The search index keeps words in lower case.
  Buffer.from(marker.toLowerCase()),
]

/** The files below a directory that hold a marker. */
export async function filesWith(directory: string, marker: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const found: string[] = []
  for (const file of files) {
    const content = await readFile(file)
    if (formsOf(marker).some((form) => content.includes(form))) found.push(file)
  }
  return found
}

export async function verified(test: Test, { services }: TestServer, keys = services.texts.keys) {
  const scratchDir = test.testdir()
  const { stored: events } = services.texts
  const { readStore } = services
  return verifyServer({ events, keys, readStore, models: READ_MODELS, scratchDir })
}

/** An issue and a comment with a file, all with markers, among others with long texts. */
export async function posted(server: TestServer, repo: string) {
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
    // Long texts move between pages while others are edited.
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

export async function directory(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'mergelog-erase-'))
  t.teardown(() => rm(made, { recursive: true, force: true, maxRetries: 3 }))
  return made
}

/** A data directory with an issue of markers, whose server has stopped. */
export async function stoppedData(t: Test) {
  const DATA_DIR = join(await directory(t), 'data')
  const server = await startTestServer(t, { DATA_DIR })
  const { number, path } = await posted(server, 'app')
  const [repository] = await server.services.views.repositories.find({ name: 'app' })
  await server.stop()
  return { DATA_DIR, number, path, repoId: repository?.id ?? 0 }
}

const MARKERS = ['Xq7TITLE', 'Xq7BODY', 'Xq7COMMENT', 'Xq7FILE', 'Xq7CONTENT']

/**
 * Returns the type of the last event of an issue; checks that all files are free of the texts, and that verify
 * succeeds.
 */
export async function lastType(t: Test, DATA_DIR: string, path: string) {
  const server = await startTestServer(t, { DATA_DIR })
  const answer = await server.fetch('alice', `/api/v1/repos/alice/${path}/history?limit=50`)
  const events: { type: string }[] = JSON.parse(await answer.text())
  t.match(await verified(t, server), { sound: true })
  for (const marker of MARKERS) t.strictSame(await filesWith(DATA_DIR, marker), [], marker)
  await server.stop()
  return events.at(-1)?.type
}
