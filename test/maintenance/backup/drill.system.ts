/** An operator's emergency: back up under load, lose everything, restore, and check. */
import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { checkBackups } from '../../../src/maintenance/backup/check.ts'
import { datedIn } from '../../../src/maintenance/backup/series.ts'
import { namesIn } from '../../../src/storage/disk.ts'
import { mergelog, startMergelog } from '../../cli/command-line.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { checkRestored, cloneTip, contentOf, temporaryDirectory } from './restored.ts'
import { APP, call, upload } from './settled-data.ts'

/** The acknowledged writes of the server. */
interface Acknowledged {
  merged: number[]
  issues: number[]
  /** Names by uuid. */
  files: Map<string, string>
  /** Commit ids by branch. */
  pushed: Map<string, string>
}

/** Users who push, merge, write issues and attach files until `end` is called. */
async function load(t: Test, server: TestServer) {
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  const acknowledged: Acknowledged = { merged: [], issues: [], files: new Map(), pushed: new Map() }
  let isOver = false
  // Limits a fast machine to an amount that a slow one can check.
  const repeat = async (times: number, what: (i: number) => Promise<void>) => {
    for (let i = 1; i <= times && !isOver; i++) await what(i)
  }
  const life = Promise.all([
    repeat(8, async (i) => {
      const branch = `topic-${i}`
      await work.git('checkout', '-q', '-b', branch, 'origin/main')
      await work.commit(branch, { [`${branch}.txt`]: `${branch}\n` })
      await work.git('push', '-q', 'origin', branch)
      acknowledged.pushed.set(branch, await work.git('rev-parse', 'HEAD'))
      const { number } = await call(server, 'POST', `${APP}/pulls`, {
        head: branch,
        base: 'main',
        title: branch,
      })
      await call(server, 'POST', `${APP}/pulls/${number}/merge`, { Do: 'merge' })
      acknowledged.merged.push(number)
    }),
    repeat(12, async (i) => {
      const { number } = await call(server, 'POST', `${APP}/issues`, { title: `Issue ${i}` })
      acknowledged.issues.push(number)
      const comment = await call(server, 'POST', `${APP}/issues/${number}/comments`, { body: 'See the file' })
      const name = `file-${i}.txt`
      const { uuid } = await upload(server, `${APP}/issues/comments/${comment.id}`, name)
      acknowledged.files.set(uuid, name)
    }),
  ])
  // A failure ends the test there, not as an unhandled one.
  life.catch(() => {})
  return {
    acknowledged,
    /** Waits until this much more has happened. */
    async more() {
      const [merged, issues] = [acknowledged.merged.length + 2, acknowledged.issues.length + 2]
      const isDone = async () => acknowledged.merged.length >= merged && acknowledged.issues.length >= issues
      await Promise.race([until('more has happened', isDone), life])
    },
    async end() {
      isOver = true
      await life
    },
  }
}

const inodesBelow = async (directory: string) => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const found = await Promise.all(files.map(({ parentPath, name }) => stat(join(parentPath, name))))
  return new Map(found.map(({ ino, size }) => [ino, size]))
}

t.test(
  'a drill: backups under load, a kill -9 at any moment, a restore, and no acknowledged write is lost',
  async (t) => {
    const server = await startTestServer(t)
    const { dataDir } = server
    await server.as('alice')
    await call(server, 'POST', '/user/repos', { name: 'app', auto_init: true })
    const { acknowledged, more, end } = await load(t, server)
    const place = join(await temporaryDirectory(t), 'backups')
    /** In a process of its own, as cron starts it. */
    async function backUp(keep: number): Promise<{
      code: number
      made: {
        directory: string
        files: number
        bytes: number
        series: { linkedFiles: number; linkedBytes: number }
      }
    }> {
      const child = startMergelog(t, ['backup', '--keep', `${keep}`, '--json', place], { DATA_DIR: dataDir })
      let text = ''
      child.stdout?.on('data', (chunk) => {
        text += chunk
      })
      const [code] = await once(child, 'close')
      return { code, made: JSON.parse(text) }
    }

    await more()
    const first = await backUp(3)
    t.equal(first.code, 0)
    await more()
    const before = structuredClone(acknowledged)
    const second = await backUp(3)
    t.equal(second.code, 0)

    await t.test('the second takes the space of the changes', async (t) => {
      const { linkedFiles, linkedBytes } = second.made.series
      t.ok(linkedFiles > 20)
      t.ok(linkedBytes > 0)
      const old = await inodesBelow(join(first.made.directory, 'data'))
      const own = [...(await inodesBelow(join(second.made.directory, 'data')))].filter(
        ([inode]) => !old.has(inode),
      )
      const bytes = own.reduce((sum, [, size]) => sum + size, 0)
      t.equal(bytes, second.made.bytes - linkedBytes, 'on disk it is what the summary says')
      t.equal(own.length, second.made.files - linkedFiles)
    })

    await t.test(
      'kill -9 at several moments: the older ones stay whole, and the next run cleans up',
      async (t) => {
        const whole = await datedIn(place)
        const moments: [what: string, isThere: (partial: string) => Promise<boolean>][] = [
          ['it begins', async () => true],
          [
            'git is copied',
            async (partial) => (await namesIn(join(place, partial, 'data', 'git'))).length > 0,
          ],
          [
            'the list is written',
            async (partial) => (await namesIn(join(place, partial))).includes('SHA256SUMS'),
          ],
        ]
        let killed = 0
        for (const [what, isThere] of moments) {
          const child = startMergelog(t, ['backup', '--keep', '9', place], { DATA_DIR: dataDir })
          const closed = once(child, 'close')
          for (; child.exitCode === null; await nextIteration()) {
            const names = await readdir(place)
            const partial = names.find((name) => name.endsWith('.partial'))
            if (partial !== undefined && (await isThere(partial))) break
          }
          child.kill('SIGKILL')
          const [code] = await closed
          if (code === null) killed += 1
          const checked = await checkBackups(place)
          t.ok(checked.length >= whole.length, what)
          t.strictSame(
            checked.flatMap(({ problems }) => problems),
            [],
            what,
          )
        }
        t.ok(killed > 0, 'one was killed')
        const next = await backUp(3)
        t.equal(next.code, 0)
        t.strictSame((await readdir(place)).filter((name) => name !== 'lock.db').sort(), await datedIn(place))
        t.equal((await datedIn(place)).length, 3)
      },
    )

    await end()
    await server.stop()
    const restored = join(place, '..', 'restored')
    const answer = await mergelog(['restore', second.made.directory], { DATA_DIR: restored })
    t.match(answer, { code: 0, stderr: '' })
    t.match(await mergelog(['verify'], { DATA_DIR: restored }), { code: 0, stdout: /^sound / })
    const after = await checkRestored(t, restored)
    for (const number of before.merged)
      t.match(await call(after, 'GET', `${APP}/pulls/${number}`), { merged: true })
    for (const number of before.issues)
      t.match(await call(after, 'GET', `${APP}/issues/${number}`), { number })
    for (const [branch, sha] of before.pushed) {
      t.match(await call(after, 'GET', `${APP}/branches/${branch}`), { commit: { id: sha } })
    }
    for (const [uuid, name] of before.files) {
      t.equal(await (await after.fetch('alice', `/attachments/${uuid}`)).text(), contentOf(name))
    }
    await cloneTip(t, after, 'alice', 'alice/app')
  },
)
