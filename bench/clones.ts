/**
 * Measures clones of a repository with many small pushes, before and after its maintenance. The ceiling is the same
 * history in one fresh pack on the same server.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { gitOutput } from '../src/git/process/run.ts'
import { packsOf } from '../src/git/repository/object-counts.ts'
import type { Sizes } from './bench.ts'
import { startChild } from './child.ts'
import { environmentOf, makeAdmin } from './log.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, type Row, ratioRow } from './table.ts'
import { api, type Target } from './target.ts'

/** Measures whole `git clone` processes, alternating with those of the fresh repository. */
export async function measureClones(dataDir: string, sizes: Sizes): Promise<Row[]> {
  const environment = { ...environmentOf(dataDir), MAINTENANCE: 'off' }
  const admin = await makeAdmin(environment)
  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })
  const target = { server, dataDir, admin, sizes }
  const source = join(dataDir, 'source.git')
  await makeSource(source, sizes.pushes)
  const pushed = await makeRepository(target, 'pushed')
  await fillAsPushed(source, pushed.dir)
  const fresh = await makeRepository(target, 'fresh')
  await gitOutput(['push', '--quiet', fresh.url, 'main'], { dir: source, timeout: 600_000 })
  await gitOutput(['repack', '-adbq'], { dir: fresh.dir, timeout: 600_000 })

  const before = await cloneTimes(target, [pushed.url, fresh.url], sizes.rounds)
  const started = performance.now()
  await maintain(target, 'pushed')
  const maintenance = performance.now() - started
  // Such clones take less than a second, mostly in the client, so more rounds are needed.
  const after = await cloneTimes(target, [pushed.url, fresh.url], 4 * sizes.rounds)
  await server.stop()
  const many = `a repository of ${sizes.pushes.toLocaleString('en')} pushes`
  const row = (work: string, [own = Number.NaN, bare = Number.NaN]: number[], goal?: { atMost: number }) =>
    ratioRow(work, milliseconds(own), `${milliseconds(bare)} a fresh one`, own / bare, goal)
  return [
    row(`clone ${many}, never maintained`, before),
    row(`clone ${many}, after ${milliseconds(maintenance)} of maintenance`, after, { atMost: 1.2 }),
  ]
}

/** A history with one small commit for each push. */
async function makeSource(dir: string, pushes: number): Promise<void> {
  const committer = 'committer Bench <bench@example.org>'
  const commits = Array.from({ length: pushes }, (_, i) => {
    const text = `content ${i}\n`.repeat(5)
    return [
      `commit refs/heads/main\nmark :${i + 1}\n${committer} ${1_700_000_000 + i * 60} +0000\ndata 5\nwork\n`,
      i === 0 ? '' : `from :${i}\n`,
      `M 100644 inline src/${i % 40}/file-${Math.floor(i / 40) % 50}.txt\ndata ${text.length}\n${text}\n`,
    ].join('')
  })
  await gitOutput(['init', '--quiet', '--bare', '--initial-branch=main', dir])
  await gitOutput(['fast-import', '--quiet'], { dir, input: commits.join(''), timeout: 600_000 })
  await gitOutput(['repack', '-adq'], { dir, timeout: 600_000 })
}

async function makeRepository(target: Target, name: string): Promise<{ dir: string; url: string }> {
  const { server, admin, dataDir } = target
  const { id }: { id: number } = await api(target, 'POST', '/user/repos', { name })
  const url = new URL(`${server.ready.url}/${admin.login}/${name}.git`)
  url.username = admin.login
  url.password = admin.token
  return { dir: join(dataDir, 'git', `${id}.git`), url: url.href }
}

/** Leaves the result of many small pushes: loose objects and a branch. Real pushes would take an hour. */
async function fillAsPushed(source: string, dir: string): Promise<void> {
  const [pack] = await packsOf(source)
  if (pack === undefined) throw new Error('the history has no pack')
  const unpack = spawn('git', ['-c', 'core.fsync=none', 'unpack-objects', '-q'], {
    env: { PATH: process.env.PATH, GIT_DIR: dir },
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  createReadStream(join(source, 'objects', 'pack', `${pack.name}.pack`)).pipe(unpack.stdin)
  const [code] = await once(unpack, 'exit')
  if (code !== 0) throw new Error(`git unpack-objects ended with ${code}`)
  const tip = (await gitOutput(['rev-parse', 'main'], { dir: source })).toString('latin1').trim()
  await gitOutput(['update-ref', 'refs/heads/main', tip], { dir })
}

/** Returns the medians of the durations of clones, in milliseconds. */
async function cloneTimes({ dataDir }: Target, urls: readonly string[], rounds: number): Promise<number[]> {
  const times = urls.map((): number[] => [])
  const to = join(dataDir, 'clone')
  for (let round = 0; round <= rounds; round++) {
    for (const [i, url] of urls.entries()) {
      const started = performance.now()
      await gitOutput(['clone', '--quiet', '--bare', url, to], { timeout: 600_000 })
      // The first round is the warm-up.
      if (round > 0) times[i]?.push(performance.now() - started)
      await rm(to, { recursive: true })
    }
  }
  return times.map(median)
}

async function maintain({ server, admin }: Target, name: string): Promise<void> {
  const answer = await fetch(`${server.ready.url}/api/v1/admin/maintenance`, {
    method: 'POST',
    headers: { authorization: `token ${admin.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ repository: `${admin.login}/${name}` }),
  })
  const lines = (await answer.text()).trimEnd().split('\n')
  if (!lines.at(-1)?.includes('"maintained"'))
    throw new Error(`maintenance: ${answer.status} ${lines.at(-1)}`)
}
