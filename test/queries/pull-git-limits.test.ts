import { execFile } from 'node:child_process'
import { rename, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { promisify } from 'node:util'
import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../src/http/answers/errors.ts'
import { disconnectSignal } from '../../src/http/requests/client-disconnect.ts'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

async function pullOn(server: Awaited<ReturnType<typeof startTestServer>>, name: string) {
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('Change', { 'a.txt': 'a\n' })
  const blob = await work.git('rev-parse', 'HEAD:a.txt')
  await work.git('push', '-q', 'origin', 'topic')
  await alice.repos.repoCreatePullRequest('alice', name, { head: 'topic', base: 'main', title: 'T' })
  const dir = `${server.services.gitDir}/${data.id}.git`
  return { alice, dir, blob, pull: `/api/v1/repos/alice/${name}/pulls/1` }
}

/** Makes every git process that reads this object hang: it waits for a writer. */
async function blockObject(dir: string, id: string): Promise<void> {
  const path = join(dir, 'objects', id.slice(0, 2), id.slice(2))
  await rm(path)
  await promisify(execFile)('mkfifo', [path])
}

t.test(
  'line 2: diffs have a time limit of their own, and their failure is cached for that pair of commits',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent', GIT_DIFF_TIMEOUT_MS: '300' })
    const { pull, dir, blob, alice } = await pullOn(server, 'slow')
    await blockObject(dir, blob)
    const status = async (path: string) => (await server.fetch(null, `${pull}${path}`)).status
    for (const path of ['/files', '/files?whitespace=ignore-all', '.diff', '.patch']) {
      t.equal(await status(path), 422, path)
    }
    await rename(dir, `${dir}.away`)
    for (const path of ['/files?skip-to=a.txt', '/files?whitespace=ignore-all', '.diff', '.patch']) {
      t.equal(await status(path), 422, `${path}: git is not asked again`)
    }
    t.not(await status('.diff?binary=true'), 422, 'this was not asked before')
    await rename(`${dir}.away`, dir)
    const merged = await alice.repos.repoMergePullRequest('alice', 'slow', 1, { Do: 'merge' })
    t.equal(merged.status, 200, 'the limit is not for merges')
  },
)

t.test('line 2: a disconnected client ends its git process', async (t) => {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
  const { pull, dir, blob } = await pullOn(server, 'gone')
  await blockObject(dir, blob)
  const { slots } = server.services.gitLimits.diffs
  for (const path of ['/files', '/commits', '.diff', '.patch']) {
    const asked = request(`${server.url}${pull}${path}`, { agent: false }).end()
    asked.on('error', () => undefined)
    await until('git runs', async () => slots.counts().running === 1)
    asked.destroy()
    // The slot is released when the process has ended.
    await until(`${path}: git has ended`, async () => slots.counts().running === 0)
  }
  t.pass()
})

t.test(
  'line 2: queries and commands have separate queues, and a disconnected client leaves its queue',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent', GIT_DIFF_SLOTS: '1' })
    const { pull, alice } = await pullOn(server, 'queued')
    const { slots } = server.services.gitLimits.diffs
    const release = await slots.take('address 192.0.2.1')
    const asking = ['/files', '/commits', '.diff'].map((path) => {
      const asked = request(`${server.url}${pull}${path}`, { agent: false }).end()
      return asked.on('error', () => undefined)
    })
    await until('all wait', async () => slots.counts().waiting === 3)
    t.equal((await alice.repos.repoMergePullRequest('alice', 'queued', 1, { Do: 'merge' })).status, 200)
    for (const asked of asking) asked.destroy()
    await until('nobody waits', async () => slots.counts().waiting === 0)
    release()
    t.equal((await server.fetch(null, `${pull}/files`)).status, 200)
  },
)

t.test('line 6: a client that aborts a diff causes no internal error in the log', async (t) => {
  const stream = new PassThrough()
  const app = Fastify({ logger: { level: 'error', stream } })
  registerErrors(app, () => 'http://localhost/docs')
  let isAsking = false
  let ended: unknown
  app.get('/diff', async (_request, reply) => {
    const signal = disconnectSignal(reply)
    isAsking = true
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  app.addHook('onError', async (_request, _reply, error) => {
    ended = error
  })
  t.teardown(() => app.close())
  const asked = request(`${await app.listen({ port: 0 })}/diff`, { agent: false }).end()
  asked.on('error', () => undefined)
  await until('it is asked', async () => isAsking)
  asked.destroy()
  await until('the work is ended', async () => ended !== undefined)
  await app.close()
  t.match(ended, { name: 'ClientDisconnected' })
  t.equal(stream.read(), null, 'nothing is logged')
})
