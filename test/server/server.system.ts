import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { giteaApi } from 'gitea-js'
import t from 'tap'
import { decode } from '../../src/events/codec.ts'
import type { EventStore } from '../../src/events/store/event-store.ts'
import { workTree } from '../git-client.ts'
import { dataDirectory, isHealthy } from '../health.ts'
import { startServerProcess } from '../server-process.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

const run = promisify(execFile)

/** The branches and tags of a repository by its log. */
async function foldRefs(events: EventStore, repoId: number): Promise<string[]> {
  const refs = new Map<string, string>()
  for await (const recorded of events.readStream(`git-${repoId}`)) {
    const event = decode(recorded)
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, to } of event.data.refs) {
      if (to === null) refs.delete(ref)
      else refs.set(ref, to)
    }
  }
  return [...refs].map(([ref, sha]) => `${sha} ${ref}`).sort()
}

async function gitRefs(dataDir: string, repoId: number): Promise<string[]> {
  const args = ['--git-dir', join(dataDir, 'git', `${repoId}.git`), 'for-each-ref']
  const { stdout } = await run('git', [
    ...args,
    '--format=%(objectname) %(refname)',
    'refs/heads',
    'refs/tags',
  ])
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .sort()
}

t.test('SIGTERM ends the process with 0', async (t) => {
  const { child, url } = await startServerProcess(t, await dataDirectory(t))
  t.equal((await fetch(`${url}/api/docs`)).status, 200)
  child.kill('SIGTERM')
  t.strictSame(await once(child, 'exit'), [0, null])
})

/** The acknowledged changes of a server: pull requests by number, branches by name. */
interface Done {
  repositories: number
  opened: number[]
  merged: number[]
  pushed: string[]
}

t.test(
  'after SIGKILL during writes every acknowledged change exists, and git agrees with the log',
  async (t) => {
    const DATA_DIR = await dataDirectory(t)
    const { child, url } = await startServerProcess(t, DATA_DIR)
    const exited = once(child, 'exit')
    const authorization = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`
    const send = async (path: string, body: object) => {
      const answer = await fetch(`${url}/api/v1${path}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const text = await answer.text()
      return { status: answer.status, text }
    }
    const gitUrl = (base: string) =>
      `${base.replace('://', `://admin:${encodeURIComponent(ADMIN_PASSWORD)}@`)}/admin/app.git`

    await send('/user/repos', { name: 'app', auto_init: true })
    const PULLS = 12
    const work = await workTree(t, gitUrl(url))
    for (let i = 0; i < PULLS; i++) {
      await work.git('checkout', '-q', '-B', `topic${i}`, 'main')
      await work.commit(`Topic ${i}`, { [`t${i}`]: 'x' })
    }
    await work.git('push', '-q', 'origin', '--all')

    const done: Done = { repositories: 0, opened: [], merged: [], pushed: [] }
    let killed = false
    /** Kills the server when enough of each kind is done, while more is in progress. */
    const acknowledge = (note: () => void) => {
      note()
      if (done.repositories < 3 || done.merged.length < 3 || done.pushed.length < 2 || killed) return
      killed = true
      child.kill('SIGKILL')
    }
    const dies = async (work: () => Promise<void>) => {
      try {
        while (!killed) await work()
      } catch (error) {
        // Only the kill may break off a request.
        if (!killed) throw error
      }
    }
    const queue = Array.from({ length: PULLS }, (_, i) => i)
    const merging = () =>
      dies(async () => {
        const i = queue.shift()
        if (i === undefined) return void (await exited)
        const opened = await send('/repos/admin/app/pulls', {
          head: `topic${i}`,
          base: 'main',
          title: `T ${i}`,
        })
        if (opened.status !== 201) throw new Error(opened.text)
        const { number } = JSON.parse(opened.text)
        acknowledge(() => done.opened.push(number))
        const merged = await send(`/repos/admin/app/pulls/${number}/merge`, { Do: 'merge' })
        if (merged.status === 200) acknowledge(() => done.merged.push(number))
        else if (merged.status !== 409) throw new Error(merged.text)
      })
    let nextRepository = 0
    const creating = () =>
      dies(async () => {
        const made = await send('/user/repos', { name: `made${nextRepository++}`, auto_init: true })
        if (made.status !== 201) throw new Error(made.text)
        acknowledge(() => (done.repositories += 1))
      })
    let nextPush = 0
    const pushing = () =>
      dies(async () => {
        const branch = `push${nextPush++}`
        await work.git('push', '-q', 'origin', `topic0:refs/heads/${branch}`)
        acknowledge(() => done.pushed.push(branch))
      })
    await Promise.all([merging(), merging(), merging(), creating(), pushing(), pushing()])
    await exited

    const after = await startTestServer(t, { DATA_DIR })
    await until('it is healthy', isHealthy(after))
    const { events, views } = after.services
    const api = giteaApi(after.url, { customFetch: fetch })
    for (let i = 0; i < done.repositories; i++) {
      t.match((await api.repos.repoGet('admin', `made${i}`)).data, { empty: false })
    }
    for (const number of done.opened) {
      t.equal((await api.repos.repoGetPullRequest('admin', 'app', number)).data.number, number)
    }
    await work.git('remote', 'set-url', 'origin', gitUrl(after.url))
    await work.git('fetch', '-q')
    const mainLine = (await work.git('rev-list', 'origin/main')).split('\n')
    for (const number of done.merged) {
      const { data } = await api.repos.repoGetPullRequest('admin', 'app', number)
      t.equal(data.merged, true)
      t.ok(mainLine.includes(data.merge_commit_sha ?? ''), `the merge of #${number} is in the base`)
    }
    for (const branch of done.pushed) {
      t.equal((await api.repos.repoGetBranch('admin', 'app', branch)).status, 200, branch)
    }
    for (const { id } of await views.repositories.find({})) {
      t.strictSame(await foldRefs(events, id), await gitRefs(DATA_DIR, id), `repository ${id}`)
    }
    const pulls = await views.pulls.find({})
    t.notOk(pulls.some(({ merging }) => merging))
    const merges = (await work.git('rev-list', '--merges', '--first-parent', 'origin/main')).split('\n')
    const recorded = pulls.flatMap(({ merged }) => (merged === null ? [] : [merged.commit]))
    t.strictSame(recorded.sort(), merges.sort(), 'a merge is in the branch exactly when it is in the log')
  },
)
