/** Measures writes. The ceiling is bare appends, or the bare git commands for requests that need git. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { mergeBase } from '../src/git/commits/history.ts'
import { mergeTrees } from '../src/git/merge/merge.ts'
import { gitLines, gitOutput } from '../src/git/process/run.ts'
import { ZERO_ID } from '../src/git/refs/names.ts'
import { readRefs } from '../src/git/refs/refs.ts'
import { startChild } from './child.ts'
import type { LoadCommand } from './load-process.ts'
import { LIGHT } from './log.ts'
import { median, milliseconds, perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'

export const CLIENTS = 32
const SIGNATURE = {
  GIT_AUTHOR_NAME: 'Bench',
  GIT_AUTHOR_EMAIL: 'bench@example.org',
  GIT_COMMITTER_NAME: 'Bench',
  GIT_COMMITTER_EMAIL: 'bench@example.org',
}

interface Repository {
  dir: string
  path: string
}

/**
 * Measures adding a collaborator (one decision and one append), creating an issue, commenting on one issue (all appends
 * are to one stream), and opening a pull request (which also needs git).
 */
export async function measurePosts(target: Target): Promise<Row[]> {
  const { server, admin, sizes } = target
  const load = await startChild<object>('load')
  let first = 1
  async function send(method: 'POST' | 'PUT', path: string, body: object, amount: number): Promise<number> {
    const headers = { authorization: `token ${admin.token}` }
    const write = { method, path: `/api/v1${path}`, body: JSON.stringify(body), first }
    const command: LoadCommand = {
      url: server.ready.url,
      connections: CLIENTS,
      headers,
      end: { amount },
      write,
    }
    const { rate, sent } = await loadOf(load, command)
    first = sent
    return rate
  }

  const other = { username: 'collaborator', email: 'c@example.org', password: 'bench collaborator' }
  await api(target, 'POST', '/admin/users', other)
  const appends: number[] = []
  const collaborators: number[] = []
  // The load generator also prepares one unsent request per connection; leave room for those.
  const amount = Math.floor(sizes.light / (sizes.rounds + 1)) - 2 * CLIENTS
  for (let i = 0; i <= sizes.rounds; i++) {
    const path = `/repos/${admin.login}/${LIGHT}-{n}/collaborators/${other.username}`
    const rate = await send('PUT', path, { permission: 'write' }, amount)
    // The first round is the warm-up.
    if (i === 0) continue
    collaborators.push(rate)
    appends.push(await appendRate(target.dataDir, sizes.seconds))
  }

  const issues = await api(target, 'POST', '/user/repos', { name: 'issues' }).then(
    () => `/repos/${admin.login}/issues`,
  )
  await api(target, 'POST', `${issues}/issues`, { title: 'Busy' })
  const [issueRates, commentRates]: [number[], number[]] = [[], []]
  for (let i = 0; i <= sizes.rounds; i++) {
    const issueRate = await send('POST', `${issues}/issues`, { title: 'Issue {n}' }, amount)
    const commentRate = await send('POST', `${issues}/issues/1/comments`, { body: 'Comment {n}' }, amount)
    if (i === 0) continue
    issueRates.push(issueRate)
    commentRates.push(commentRate)
  }

  const { pullsToOpen } = sizes
  const repository = await makeRepository(target, 'opened', 3 * pullsToOpen + 4 * CLIENTS)
  const bareGit = await gitRate(repository, pullsToOpen)
  first = pullsToOpen
  const opening = { head: 'head-{n}', base: 'main', title: 'Number {n}' }
  const open = () => send('POST', `${repository.path}/pulls`, opening, pullsToOpen)
  // The first round is the warm-up: it compiles the code.
  await open()
  const opened = await open()
  await load.stop()
  const [append, collaborator] = [median(appends), median(collaborators)]
  const [issue, comment] = [median(issueRates), median(commentRates)]
  return [
    ratioRow(
      `put a collaborator, ${CLIENTS} clients`,
      perSecond(collaborator),
      `${perSecond(append)} bare appends`,
      collaborator / append,
      { atLeast: 0.3 },
    ),
    ratioRow(
      `post an issue, ${CLIENTS} clients`,
      perSecond(issue),
      `${perSecond(append)} bare appends`,
      issue / append,
      { atLeast: 0.2 },
    ),
    ratioRow(
      `post a comment on one issue, ${CLIENTS} clients`,
      perSecond(comment),
      `${perSecond(issue)} issues`,
      comment / issue,
      { atLeast: 0.7 },
    ),
    ratioRow(
      `post a pull request, ${CLIENTS} clients`,
      perSecond(opened),
      `${perSecond(bareGit)} its git commands`,
      opened / bareGit,
      { atLeast: 1.5 },
    ),
  ]
}

/** Appends per second to a separate log, in the same directory and so on the same disk. */
export async function appendRate(dataDir: string, seconds: number): Promise<number> {
  const store = openSqliteEventStore(join(dataDir, `bare-${randomUUID()}.db`))
  const end = performance.now() + seconds * 1000
  const metadata = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: '',
    causationId: '',
    schema: 1,
  }
  let appended = 0
  async function client(): Promise<void> {
    while (performance.now() < end) {
      const event = { id: randomUUID(), type: 'Bench', data: { text: 'x'.repeat(200) }, metadata }
      await store.append(`bench-${randomUUID()}`, [event], 'no-stream')
      appended += 1
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  await store.close()
  return appended / seconds
}

/** Measures the git work of opening a pull request with the same number of clients, per second. */
async function gitRate({ dir }: Repository, times: number): Promise<number> {
  const started = performance.now()
  let next = 0
  async function client(): Promise<void> {
    while (next < times) {
      const n = next++
      const [main, head] = ['refs/heads/main', `refs/heads/head-${n}`]
      const tips = await readRefs(dir, [main, head])
      const [ours, theirs] = [tips.get(main), tips.get(head)]
      if (ours == null || theirs == null) throw new Error(`head-${n} does not exist`)
      const base = await mergeBase(dir, ours, theirs)
      // Runs git although the server no longer needs it here.
      const diff = ['diff-tree', '-r', '-M', '--shortstat', base ?? ours, theirs, '--']
      await Promise.all([gitOutput(diff, { dir }), mergeTrees(dir, ours, theirs)])
      await gitOutput(['update-ref', `refs/bench/${n}/head`, theirs, ZERO_ID], { dir })
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  return (times / (performance.now() - started)) * 1000
}

/** Measures merges one by one, alternating with the bare git commands of a merge. */
export async function measureMerges(target: Target): Promise<Row[]> {
  const { merges } = target.sizes
  const repository = await makeRepository(target, 'merged', 2 * merges, true)
  const own: number[] = []
  const bare: number[] = []
  for (let n = 0; n < merges; n++) {
    const [head, base] = [`head-${n}`, `base-${n}`]
    const opening = { head, base, title: `Merge ${n}` }
    const { number }: { number: number } = await api(target, 'POST', `${repository.path}/pulls`, opening)
    let started = performance.now()
    await api(target, 'POST', `${repository.path}/pulls/${number}/merge`, { Do: 'merge' })
    own.push(performance.now() - started)

    started = performance.now()
    await mergeByGit(repository.dir, `refs/heads/base-${merges + n}`, `refs/heads/head-${merges + n}`)
    bare.push(performance.now() - started)
  }
  const [ours, gits] = [median(own), median(bare)]
  return [
    ratioRow('merge', milliseconds(ours), `${milliseconds(gits)} its git commands`, ours / gits, {
      atMost: 1.2,
    }),
  ]
}

/** Merges with git commands alone. Runs git although the server may not need it here. */
async function mergeByGit(dir: string, baseRef: string, headRef: string): Promise<void> {
  const [base = '', head = ''] = await gitLines(['rev-parse', baseRef, headRef], { dir })
  const [tree = ''] = await gitLines(['merge-tree', '--write-tree', base, head], { dir })
  const committing = ['commit-tree', tree, '-p', base, '-p', head, '-m', 'x']
  const [commit = ''] = await gitLines(committing, { dir, env: SIGNATURE })
  await gitOutput(['update-ref', baseRef, commit, base], { dir })
}

/**
 * Creates a repository with `main` and `branches` branches `head-<n>`, each with one commit, and pushes it.
 */
export async function makeRepository(
  target: Target,
  name: string,
  branches: number,
  withBases = false,
): Promise<Repository> {
  const { server, admin, dataDir } = target
  const { id }: { id: number } = await api(target, 'POST', '/user/repos', { name })
  const source = join(dataDir, `${name}-source.git`)
  await gitOutput(['init', '--quiet', '--bare', source])
  await gitOutput(['fast-import', '--quiet'], { dir: source, input: fastImport(branches, withBases) })
  const url = new URL(`${server.ready.url}/${admin.login}/${name}.git`)
  url.username = admin.login
  url.password = admin.token
  await gitOutput(['push', '--quiet', url.href, 'refs/heads/*:refs/heads/*'], { dir: source })
  return { dir: join(dataDir, 'git', `${id}.git`), path: `/repos/${admin.login}/${name}` }
}

function fastImport(branches: number, withBases: boolean): string {
  const committer = 'committer Bench <bench@example.org> 1700000000 +0000'
  const file = (path: string, text: string) => `M 100644 inline ${path}\ndata ${text.length}\n${text}\n`
  const files = Array.from({ length: 200 }, (_, i) => file(`src/${i % 10}/file-${i}.txt`, `line ${i}\n`))
  const parts = [`commit refs/heads/main\nmark :1\n${committer}\ndata 5\nfirst\n${files.join('')}`]
  const branch = (name: string, path: string, text: string) =>
    `commit refs/heads/${name}\n${committer}\ndata 4\nwork\nfrom :1\n${file(path, text)}`
  for (let n = 0; n < branches; n++) {
    parts.push(branch(`head-${n}`, `head-${n}.txt`, 'x\n'))
    if (withBases) parts.push(branch(`base-${n}`, 'base.txt', `${n}\n`))
  }
  return `${parts.join('\n')}\n`
}
