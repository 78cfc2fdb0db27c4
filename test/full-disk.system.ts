import { spawnSync } from 'node:child_process'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { checked, checkOf } from '../src/storage/checked-json.ts'
import { startEventStoreDouble } from './doubles/eventstore.ts'
import { eventStoreWithLongTimeouts } from './doubles/long-timeouts.ts'
import { tryGit } from './git/client.ts'
import { workTree } from './git-client.ts'
import { startServerProcess } from './server-process.ts'
import { ADMIN_PASSWORD, basic } from './server-template.ts'
import { until } from './until.ts'

const MEBIBYTE = 1024 ** 2

/** Whether this machine lets the test mount a file system that only its own processes see. */
const UNSHARE = ['--mount', '--map-root-user']
const mounts = spawnSync('unshare', [...UNSHARE, 'sh', '-c', 'mount -t tmpfs -o size=1m tmpfs /mnt'], {
  encoding: 'utf8',
})
const skip =
  mounts.status === 0
    ? false
    : `no small file system can be mounted here: ${mounts.error?.message ?? mounts.stderr}`

/** A server whose data directory is a file system of 48 MiB. `outside`: the path of the directory for this process. */
async function startOnSmallDisk(t: Test, settings: Record<string, string> = {}) {
  const DATA_DIR = t.testdir()
  const script = 'mount -t tmpfs -o size=48m tmpfs "$1" && shift && exec "$@"'
  const { child, url } = await startServerProcess(
    t,
    DATA_DIR,
    { LOG_LEVEL: 'silent', MIN_FREE_BYTES: '0', ...settings },
    { within: ['unshare', ...UNSHARE, 'sh', '-c', script, 'sh', DATA_DIR] },
  )
  return { url, outside: `/proc/${child.pid}/root${DATA_DIR}` }
}

t.test(
  'on a full disk no acknowledged write is lost, and the server continues when there is room',
  { skip },
  async (t) => {
    const { url, outside } = await startOnSmallDisk(t)
    const request = (method: string, path: string, body?: object | FormData) =>
      fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          authorization: basic('admin'),
          ...(body instanceof FormData ? {} : { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: body instanceof FormData ? body : JSON.stringify(body) }),
      })
    const numbered = checkOf(
      Type.Object({ number: Type.Optional(Type.Integer()), id: Type.Optional(Type.Integer()) }),
    )
    const answered = async (answer: Response) => checked(numbered, await answer.json())
    await until('the server is ready', async () => (await fetch(`${url}/healthz`)).status === 200)
    t.equal((await request('POST', '/user/repos', { name: 'app', auto_init: true })).status, 201)
    const { number = 0 } = await answered(
      await request('POST', '/repos/admin/app/issues', { title: 'Before' }),
    )
    const { id = 0 } = await answered(
      await request('POST', `/repos/admin/app/issues/${number}/comments`, { body: 'x' }),
    )
    const remote = new URL(`${url}/admin/app.git`)
    remote.username = 'admin'
    remote.password = ADMIN_PASSWORD
    const work = await workTree(t, remote.href)
    const first = await work.commit('Before', { 'a.txt': 'a' })
    await work.git('push', '-q', 'origin', 'main')

    const filler = `${outside}/filler`
    await fill(filler)
    const form = new FormData()
    form.set('attachment', new File([Buffer.alloc(MEBIBYTE, 'x')], 'large.txt'))
    const assets = `/repos/admin/app/issues/comments/${id}/assets`
    t.equal((await request('POST', assets, form)).status, 507, 'an attachment')
    const acknowledged: number[] = []
    let refused: Response | undefined
    // The log may have some room of its own left.
    for (let i = 0; refused === undefined && i < 500; i++) {
      const answer = await request('POST', '/repos/admin/app/issues', {
        title: `${i}`,
        body: 'x'.repeat(30_000),
      })
      if (answer.status === 201) acknowledged.push((await answered(answer)).number ?? 0)
      else refused = answer
    }
    t.equal(refused?.status, 507, 'an append to the log')
    t.match(await refused?.json(), { message: "the server's disk is full; try again later" })
    t.equal((await request('POST', '/user/repos', { name: 'next' })).status, 507, 'a new repository')
    const second = await work.commit('While it is full', {
      'b.txt': 'x'.repeat(200_000).replace(/x/g, () => `${Math.random()}`),
    })
    const push = await tryGit(work.dir, ['push', 'origin', 'main'])
    t.not(push.code, 0)
    t.match(push.stderr, /the server's disk is full; try again later/, 'a push says it in words')
    t.equal((await request('GET', `/repos/admin/app/issues/${number}`)).status, 200, 'queries go on')

    await rm(filler)
    await until('the server takes issues again', async () => {
      const answer = await request('POST', '/repos/admin/app/issues', { title: 'After' })
      return answer.status === 201
    })
    await until('the read models have caught up', async () => (await fetch(`${url}/healthz`)).status === 200)
    for (const one of [number, ...acknowledged]) {
      t.equal((await request('GET', `/repos/admin/app/issues/${one}`)).status, 200, `issue ${one} is there`)
    }
    t.match(await (await request('GET', '/repos/admin/app/branches/main')).json(), { commit: { id: first } })
    await work.git('push', '-q', 'origin', 'main')
    t.match(await (await request('GET', '/repos/admin/app/branches/main')).json(), { commit: { id: second } })
    t.equal((await request('POST', assets, form)).status, 201)
    t.equal(await work.git('ls-remote', 'origin', 'refs/heads/main'), `${second}\trefs/heads/main`)
  },
)

t.test(
  'when only the disk of the read models is full, /healthz reports it, and no write is lost',
  { skip },
  async (t) => {
    const double = await startEventStoreDouble({ port: 0, file: join(t.testdir(), 'events.db') })
    t.teardown(() => double.close())
    const { url, outside } = await startOnSmallDisk(t, {
      EVENTSTORE_URL: eventStoreWithLongTimeouts(double),
      PROJECTION_WAIT_MS: '100',
    })
    const health = async () => {
      const answer = await fetch(`${url}/healthz`)
      return { status: answer.status, body: await answer.json() }
    }
    const request = (method: string, path: string, body?: object) =>
      fetch(`${url}/api/v1${path}`, {
        method,
        headers: { authorization: basic('admin'), 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
    await until('the server is ready', async () => (await health()).status === 200)
    t.equal((await request('POST', '/user/repos', { name: 'app', auto_init: true })).status, 201)
    const filler = `${outside}/filler`
    await fill(filler)
    let acknowledged = 0
    await until('the read models cannot be written', async () => {
      const answer = await request('POST', '/repos/admin/app/issues', {
        title: 'x',
        body: 'x'.repeat(30_000),
      })
      if (answer.status === 201) acknowledged += 1
      return answer.headers.has('mergelog-projection')
    })
    await until('it says so', async () => /problems/.test(JSON.stringify(await health())))
    t.match(await health(), {
      status: 503,
      body: { status: 'unhealthy', problems: ['the disk of the read models is full'] },
    })
    await rm(filler)
    await until('the read models have caught up', async () => (await health()).status === 200)
    t.notOk(/disk/.test(JSON.stringify((await health()).body)))
    const list = await request('GET', '/repos/admin/app/issues')
    t.equal(list.headers.get('x-total-count'), `${acknowledged}`)
  },
)

/** Writes a file until the disk is full. */
async function fill(path: string): Promise<void> {
  const file = await open(path, 'w')
  try {
    for (let size = MEBIBYTE; size >= 1; ) {
      const isWritten = await file.write(Buffer.alloc(size)).then(
        ({ bytesWritten }) => bytesWritten === size,
        () => false,
      )
      if (!isWritten) size = Math.floor(size / 2)
    }
  } finally {
    await file.close()
  }
}
