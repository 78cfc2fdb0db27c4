import { join } from 'node:path'
import t from 'tap'
import { backup } from '../../../src/maintenance/backup/backup.ts'
import { restore } from '../../../src/maintenance/backup/restore.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { checkRestored, cloneTip, temporaryDirectory } from './restored.ts'
import { APP, call, upload } from './settled-data.ts'

t.test('backups beside a server in use are complete', async (t) => {
  const server = await startTestServer(t)
  await server.as('alice')
  await call(server, 'POST', '/user/repos', { name: 'app', auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  const repeat = async (times: number, what: (i: number) => Promise<void>) => {
    for (let i = 1; i <= times; i++) await what(i)
  }
  const life = Promise.all([
    repeat(4, async (i) => {
      await work.git('checkout', '-q', '-b', `topic-${i}`, 'main')
      await work.commit(`Topic ${i}`, { [`${i}.txt`]: `${i}\n` })
      await work.git('push', '-q', 'origin', `topic-${i}`)
      const opening = { head: `topic-${i}`, base: 'main', title: `Topic ${i}` }
      const { number } = await call(server, 'POST', `${APP}/pulls`, opening)
      await call(server, 'POST', `${APP}/pulls/${number}/merge`, {
        Do: 'merge',
        delete_branch_after_merge: i % 2 === 0,
      })
    }),
    repeat(4, async (i) => {
      const issue = await call(server, 'POST', `${APP}/issues`, { title: `Issue ${i}` })
      const comment = await call(server, 'POST', `${APP}/issues/${issue.number}/comments`, { body: 'x' })
      await upload(server, `${APP}/issues/comments/${comment.id}`, `kept-${i}.txt`)
      const gone = await call(server, 'POST', `${APP}/issues/${issue.number}/comments`, { body: 'y' })
      await upload(server, `${APP}/issues/comments/${gone.id}`, `gone-${i}.txt`)
      await call(server, 'DELETE', `${APP}/issues/comments/${gone.id}`)
    }),
    repeat(4, async (i) => {
      await call(server, 'POST', '/user/repos', { name: `r-${i}`, auto_init: true })
      if (i % 3 !== 0) await call(server, 'DELETE', `/repos/alice/r-${i}`)
    }),
  ])
  let isOver = false
  const over = life.finally(() => {
    isOver = true
  })
  const place = await temporaryDirectory(t)
  const backups: string[] = []
  while (!isOver) {
    const directory = join(place, `b-${backups.length}`)
    t.same((await backup({ dataDir: server.dataDir, directory })).missing, [])
    backups.push(directory)
  }
  await over
  await server.stop()
  // The first backup was made while requests were running.
  for (const directory of new Set([...backups.slice(0, 1), ...backups.slice(-1)])) {
    const dataDir = `${directory}-restored`
    await restore({ directory, dataDir })
    const restored = await checkRestored(t, dataDir)
    await cloneTip(t, restored, 'alice', 'alice/app')
    t.equal((await restored.fetch('alice', '/api/v1/user')).status, 200)
    await restored.stop()
  }
})
