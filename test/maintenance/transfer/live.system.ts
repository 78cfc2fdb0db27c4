import { join } from 'node:path'
import t from 'tap'
import { exportAll } from '../../../src/maintenance/transfer/export.ts'
import { importExport } from '../../../src/maintenance/transfer/import.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'
import { checkRestored, temporaryDirectory } from '../backup/restored.ts'
import { APP, call, upload } from '../backup/settled-data.ts'
import { anInstallation, configOf } from './installations.ts'

t.test('exports beside a server under writes are complete', async (t) => {
  const source = await anInstallation(t, 'both servers')
  const server = await startTestServer(t, source)
  await server.as('alice')
  await call(server, 'POST', '/user/repos', { name: 'app', auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  let isOver = false
  const pushes = async () => {
    for (let i = 1; i <= 3; i++) {
      await work.git('checkout', '-q', '-b', `topic-${i}`, 'main')
      await work.commit(`Topic ${i}`, { [`${i}.txt`]: `${i}\n` })
      await work.git('push', '-q', 'origin', `topic-${i}`)
      const opening = { head: `topic-${i}`, base: 'main', title: `Topic ${i}` }
      const { number } = await call(server, 'POST', `${APP}/pulls`, opening)
      await call(server, 'POST', `${APP}/pulls/${number}/merge`, { Do: 'merge' })
    }
  }
  const comments = async () => {
    for (let i = 1; i <= 4; i++) {
      const issue = await call(server, 'POST', `${APP}/issues`, { title: `Issue ${i}` })
      const comment = await call(server, 'POST', `${APP}/issues/${issue.number}/comments`, { body: 'x' })
      await upload(server, `${APP}/issues/comments/${comment.id}`, `kept-${i}.txt`)
      await call(server, 'POST', '/user/repos', { name: `r-${i}`, auto_init: true })
      if (i % 3 !== 0) await call(server, 'DELETE', `/repos/alice/r-${i}`)
    }
  }
  const life = Promise.all([pushes(), comments()]).finally(() => {
    isOver = true
  })
  const place = await temporaryDirectory(t)
  const made: string[] = []
  while (!isOver) {
    const directory = join(place, `e-${made.length}`)
    t.same((await exportAll({ config: configOf(source), directory })).missing, [])
    made.push(directory)
  }
  await life
  await server.stop()
  // The first one was made while requests were running.
  for (const directory of new Set([...made.slice(0, 1), ...made.slice(-1)])) {
    const to = await anInstallation(t, 'embedded')
    await importExport({ directory, config: configOf(to) })
    const moved = await checkRestored(t, to.DATA_DIR)
    t.equal((await moved.fetch('alice', '/api/v1/user')).status, 200)
    await moved.stop()
  }
})
