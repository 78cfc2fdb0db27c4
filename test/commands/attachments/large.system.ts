/** Files far larger than the server's memory, in a process that can be measured and killed. */
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startServerProcess } from '../../server-process.ts'
import { ADMIN_PASSWORD } from '../../server-template.ts'
import { until } from '../../until.ts'
import type { Wire } from './setup.ts'

const MIB = 2 ** 20
const SIZE = 200 * MIB
/** Maximum growth of the server's peak memory, as a fraction of the file. */
const MOST_GROWTH = 100 * MIB
const BLOCK = Buffer.alloc(MIB, 'All work and no play makes Jack a dull boy.\n')
const authorization = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`

async function startReady(DATA_DIR: string) {
  const server = await startServerProcess(t, DATA_DIR)
  await until('it is ready', async () => (await fetch(`${server.url}/healthz`)).status === 200)
  return server
}

/** Returns the peak memory of a process, in bytes. */
async function peakOf({ pid }: ChildProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

const forgetPeakOf = ({ pid }: ChildProcess) => writeFile(`/proc/${pid}/clear_refs`, '5')

/** Sends a form with a file of that many blocks, generated while it is sent. Calls `sent` for each block. */
async function upload(
  url: string,
  blocks: number,
  sent: (blocks: number) => void = () => {},
): Promise<{ status: number; body: string }> {
  const head = '--b\r\nContent-Disposition: form-data; name="attachment"; filename="large.txt"\r\n\r\n'
  const headers = { authorization, 'content-type': 'multipart/form-data; boundary=b' }
  const asked = request(url, { method: 'POST', headers })
  const [answered, closed] = [once(asked, 'response'), once(asked, 'close')]
  // Waiters are told, too.
  for (const event of [answered, closed]) event.catch(() => undefined)
  asked.write(head)
  for (let i = 0; i < blocks && !asked.destroyed; i++) {
    if (!asked.write(BLOCK)) await Promise.race([once(asked, 'drain'), closed])
    sent(i + 1)
  }
  asked.end('\r\n--b--\r\n')
  const [answer] = await answered
  let body = ''
  for await (const chunk of answer) body += chunk
  return { status: answer.statusCode, body }
}

async function api(url: string, path: string, body: object): Promise<{ id: number }> {
  const headers = { authorization, 'content-type': 'application/json' }
  const answer = await fetch(`${url}/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return JSON.parse(await answer.text())
}

const measurable = process.platform === 'linux' ? false : 'memory is read from /proc, which only Linux has'

t.test('200 MiB go up and down in flat memory, and outlive a kill', { skip: measurable }, async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-large-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const { child, url } = await startReady(DATA_DIR)
  await api(url, '/user/repos', { name: 'app' })
  await api(url, '/repos/admin/app/issues', { title: 'Large' })
  const { id } = await api(url, '/repos/admin/app/issues/1/comments', { body: 'See the file' })
  const assets = `/api/v1/repos/admin/app/issues/comments/${id}/assets`
  t.equal((await upload(`${url}${assets}`, 1)).status, 201)

  await forgetPeakOf(child)
  const before = await peakOf(child)
  const { status, body } = await upload(`${url}${assets}`, SIZE / MIB)
  t.equal(status, 201)
  const growth = (await peakOf(child)) - before
  t.comment(`an upload of 200 MiB took ${Math.round(growth / MIB)} MiB at its peak`)
  t.ok(growth < MOST_GROWTH, `${growth} bytes more for an upload of ${SIZE}`)
  const made: Wire = JSON.parse(body)
  t.equal(made.size, SIZE)

  const expected = createHash('sha256')
  for (let i = 0; i < SIZE / MIB; i++) expected.update(BLOCK)
  const digest = expected.digest('hex')
  async function downloaded(from: string): Promise<string> {
    const answer = await fetch(`${from}/attachments/${made.uuid}`, { headers: { authorization } })
    const hash = createHash('sha256')
    if (answer.body !== null) for await (const chunk of answer.body) hash.update(chunk)
    return hash.digest('hex')
  }
  await forgetPeakOf(child)
  const beforeDownload = await peakOf(child)
  t.equal(await downloaded(url), digest)
  const downGrowth = (await peakOf(child)) - beforeDownload
  t.comment(`its download took ${Math.round(downGrowth / MIB)} MiB at its peak`)
  t.ok(downGrowth < MOST_GROWTH, `${downGrowth} bytes more for its download`)

  const exited = once(child, 'exit')
  const cutOff = upload(`${url}${assets}`, 1000, (blocks) => {
    if (blocks === 50) child.kill('SIGKILL')
  })
  await t.rejects(cutOff)
  await exited
  t.equal((await readdir(join(DATA_DIR, 'attachments', 'incoming'))).length, 1, 'killed in the middle')

  const next = await startReady(DATA_DIR)
  t.same(await readdir(join(DATA_DIR, 'attachments', 'incoming')), [])
  const list = await fetch(`${next.url}${assets}`)
  t.equal(JSON.parse(await list.text()).length, 2)
  t.equal(await downloaded(next.url), digest)
})
