/** Erasing by an operator: on the command line, and in copies. */
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { mergelog } from '../../../cli/command-line.ts'
import { ADMIN_PASSWORD, startTestServer } from '../../../start-server.ts'
import { directory, filesWith, lastType, posted, stoppedData, verified } from './setup.ts'

const stopped = await stoppedData(t)

async function copyOfStopped(t: Test) {
  const DATA_DIR = join(await directory(t), 'data')
  await cp(stopped.DATA_DIR, DATA_DIR, { recursive: true })
  return { ...stopped, DATA_DIR }
}

t.test('mergelog erase, without a server and beside one; export and import', async (t) => {
  const { DATA_DIR, path, number } = await copyOfStopped(t)
  const app = `alice/app#${number}`
  const dry = await mergelog(['erase', app, '--all', '--dry-run'], { DATA_DIR })
  t.match(dry, {
    code: 0,
    stdout: /^Would erase all texts of alice\/app#1, in \d+ events\n(comment \d+\n){12}file /,
  })
  for (const which of [[], ['--all', '--comment', '3']]) {
    const unclear = await mergelog(['erase', app, ...which], { DATA_DIR })
    t.match(unclear, { code: 2, stderr: /either --comment ID or --all/ })
  }
  const alone = await mergelog(['erase', `alice/app#${number}`, '--all'], { DATA_DIR })
  t.match(alone, { code: 0, stdout: /^Erased all texts of alice\/app#1\n$/ })
  t.equal(await lastType(t, DATA_DIR, path), 'ErasureFinished')

  const server = await startTestServer(t, { DATA_DIR })
  const { comment, path: second, number: other } = await posted(server, 'other')
  const environment = { DATA_DIR, ADMIN_PASSWORD, PUBLIC_URL: server.url }
  const beside = ['erase', `alice/other#${other}`, '--comment', `${comment}`]
  t.match(await mergelog([...beside, '--dry-run'], environment), {
    code: 0,
    stdout: new RegExp(`^Would erase comment ${comment} of .*\\ncomment ${comment}\\nfile \\S+\\n$`),
  })
  t.match(await mergelog(beside, environment), { code: 0, stdout: /^Erased comment \d+ of/ })
  t.match(await mergelog(beside, { DATA_DIR }), { code: 1, stderr: /MERGELOG_TOKEN or ADMIN_PASSWORD/ })
  t.match(await mergelog(['erase', 'alice/other#99', '--all'], environment), {
    code: 1,
    stderr: /answered 404/,
  })

  const copy = join(await directory(t), 'export')
  t.match(await mergelog(['export', copy], { DATA_DIR }), { code: 0 })
  t.strictSame(await filesWith(copy, 'Xq7SECOND'), [], 'an export has texts sealed')
  await server.stop()
  const moved = join(await directory(t), 'data')
  t.match(await mergelog(['import', copy], { DATA_DIR: moved }), { code: 0 })
  const there = await startTestServer(t, { DATA_DIR: moved })
  const title = await (await there.fetch('alice', `/api/v1/repos/alice/${second}`)).text()
  t.match(title, 'Xq7SECOND', 'texts that were not erased come with their keys')
  const gone = await (await there.fetch('alice', `/api/v1/repos/alice/${path}`)).text()
  t.match(gone, 'erased by an operator on')
  t.match(await verified(t, there), { sound: true })
  await there.stop()
  t.match(await mergelog(['verify'], { DATA_DIR: moved }), { code: 0, stdout: /\d+ texts erased/ })
})
