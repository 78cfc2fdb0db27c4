/** Data for the tests of backups. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { lfsOf } from '../../commands/lfs/lfs-client.ts'
import { workTree } from '../../git-client.ts'
import { makeOnce, templateDir } from '../../server-template.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { contentOf, gitRefs, temporaryDirectory } from './restored.ts'

/** Sends a request as alice, or as another user. Resolves to the answer's JSON. @throws when the answer is not 2xx */
export async function call(server: TestServer, method: string, path: string, body?: object, user = 'alice') {
  const init = body instanceof FormData ? body : body && JSON.stringify(body)
  const answer = await server.fetch(user, `/api/v1${path}`, { method, ...(init && { body: init }) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

export async function upload(server: TestServer, path: string, name: string) {
  const form = new FormData()
  form.set('attachment', new Blob([contentOf(name)]), name)
  return call(server, 'POST', `${path}/assets`, form)
}

export const APP = '/repos/alice/app'

/** The data directory of a stopped server. */
export interface SettledData {
  dataDir: string
  /** A token of alice. */
  token: string
  /** The tip of `main` of alice/app after the merge. */
  tip: string
}

/** Facts about the template. */
const FACTS = 'facts.json'

/** A repository with a merged pull request, an open one, tags, a file, and a renamed fork with a pending transfer. */
export async function settledData(t: Pick<Test, 'teardown'>): Promise<SettledData> {
  const source = await readFile(fileURLToPath(import.meta.url))
  const name = `settled-${createHash('sha256').update(source).digest('hex').slice(0, 8)}`
  const template = `${await templateDir()}.${name}`
  await makeOnce(template, make)
  const facts: Omit<SettledData, 'dataDir'> = JSON.parse(await readFile(join(template, FACTS), 'utf8'))
  return { dataDir: await copyOf(t, { dataDir: join(template, 'data') }), ...facts }
}

async function make(dir: string): Promise<void> {
  const ends: (() => unknown)[] = []
  const t = { teardown: (end: () => unknown) => void ends.unshift(end) }
  const dataDir = join(dir, 'data')
  const server = await startTestServer(t, { DATA_DIR: dataDir })
  await server.as('alice')
  await server.as('bob')
  const asBob = (method: string, path: string, body: object) => call(server, method, path, body, 'bob')
  await call(server, 'POST', '/user/repos', { name: 'app', auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  for (const topic of ['one', 'two']) {
    await work.git('checkout', '-q', '-b', topic, 'main')
    await work.commit(topic, { [`${topic}.txt`]: `${topic}\n` })
    await work.git('tag', '-a', '-m', topic, `v-${topic}`)
    await work.git('push', '-q', '--follow-tags', 'origin', topic)
    await call(server, 'POST', `${APP}/pulls`, { head: topic, base: 'main', title: topic })
  }
  await call(server, 'POST', `${APP}/pulls/1/merge`, { Do: 'merge' })
  const { id } = await call(server, 'POST', `${APP}/issues/2/comments`, { body: 'Look' })
  await upload(server, `${APP}/issues/comments/${id}`, 'a.txt')
  // Checked with the rest when the copy is verified, because the fork has it, too.
  await lfsOf(server, 'alice/app').put('alice', contentOf('large'))
  await asBob('POST', `${APP}/forks`, {})
  await asBob('PATCH', '/repos/bob/app', { name: 'application' })
  await asBob('POST', '/repos/bob/application/transfer', { new_owner: 'alice' })
  const token = await call(server, 'POST', '/users/alice/tokens', { name: 'kept', scopes: ['all'] })
  await server.stop()
  const { 'refs/heads/main': tip = '' } = await gitRefs(dataDir, 1)
  for (const end of ends) await end()
  await writeFile(join(dir, FACTS), JSON.stringify({ token: token.sha1, tip }))
}

/** A copy of it for a test to damage; files that share their bytes also do so there. */
export async function copyOf(
  t: Pick<Test, 'teardown'>,
  { dataDir }: Pick<SettledData, 'dataDir'>,
): Promise<string> {
  const copy = join(await temporaryDirectory(t), 'data')
  await promisify(execFile)('cp', ['-a', dataDir, copy])
  return copy
}
