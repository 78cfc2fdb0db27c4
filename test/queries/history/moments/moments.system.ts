/** Moments and `kill -9`; moments of several nodes. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startServerProcess } from '../../../server-process.ts'
import { basic } from '../../../server-template.ts'
import { sharedStores } from '../../../shared-stores.ts'
import { startTestServer } from '../../../start-server.ts'
import { until } from '../../../until.ts'

const ISSUES = '/api/v1/repos/admin/app/issues'

/** An answer without the address of the server. */
const local = (body: unknown) => JSON.stringify(body).replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, '')

async function call(url: string, method: string, path: string, body?: object) {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: basic('admin'), ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, at: answer.headers.get('mergelog-at') ?? '', body: await answer.json() }
}

/** Creates a repository with some issues. Returns a moment for each. */
async function seeded(url: string, issues: number): Promise<{ at: string; body: unknown }[]> {
  await call(url, 'POST', '/api/v1/user/repos', { name: 'app' })
  const moments: { at: string; body: unknown }[] = []
  for (let i = 0; i < issues; i++) {
    await call(url, 'POST', ISSUES, { title: `Issue ${i}` })
    const { at, body } = await call(url, 'GET', `${ISSUES}?at=2999-01-01`)
    moments.push({ at: at.split(' ')[0] ?? '', body })
  }
  return moments.slice(0, -1)
}

t.test('a server that is killed while moments are built leaves nothing wrong', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'mergelog-moments-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true, maxRetries: 3 }))
  async function files(): Promise<string[]> {
    const options = { recursive: true, withFileTypes: true } as const
    const found = await readdir(join(dataDir, 'moments'), options).catch(() => [])
    return found.filter((entry) => entry.isFile()).map(({ name }) => name)
  }
  let { child, url } = await startServerProcess(t, dataDir)
  const moments = await seeded(url, 8)
  for (let round = 0; round < 4; round++) {
    const asked = moments.map(({ at }) => call(url, 'GET', `${ISSUES}?at=${at}`).catch(() => undefined))
    // In each round a little later in the builds.
    await until('moments are being built', async () => (await files()).length > 2 * round)
    child.kill('SIGKILL')
    await Promise.all(asked)
    const left = await files()
    const next = await startServerProcess(t, dataDir)
    child = next.child
    url = next.url
    t.ok(left.length > 0)
    t.same(await files(), [], 'the next start removes the files')
    for (const { at, body } of moments.slice(0, 2)) {
      t.equal(local((await call(url, 'GET', `${ISSUES}?at=${at}`)).body), local(body))
    }
  }
  child.kill('SIGTERM')
  await until('the files are removed at the stop', async () => (await files()).length === 0)
})

t.test('any node answers any moment', async (t) => {
  const environment = await sharedStores(t)
  const nodes: { url: string }[] = []
  for (const NODE_NAME of ['one', 'two', 'three']) {
    nodes.push(await startTestServer(t, { ...environment, NODE_NAME }))
  }
  const [first, second = first, third = first] = nodes
  if (first === undefined || second === undefined || third === undefined) throw new Error('no node')
  const moments = await seeded(first.url, 5)
  for (const { at, body } of moments) {
    for (const { url } of [third, second, first]) {
      const past = await call(url, 'GET', `${ISSUES}?at=${at}`)
      t.equal(local(past.body), local(body), `${at} of ${url}`)
      t.equal(past.at.split(' ')[0], at)
    }
  }
})
