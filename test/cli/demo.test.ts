import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_PASSWORD, startTestServer } from '../start-server.ts'

const run = promisify(execFile)
const mergelog = fileURLToPath(new URL('../../src/cli/mergelog.ts', import.meta.url))

/** The demo pushes the history of the checkout that it runs in, so it needs one. */
const complete = await run('git', ['rev-parse', '--is-shallow-repository']).then(
  ({ stdout }) => stdout.trim() === 'false',
  () => false,
)
const options = complete
  ? {}
  : { skip: 'this checkout is no complete git clone, so there is no history to push' }

t.test('mergelog demo plays the main job on this very repository and tells its story', options, async (t) => {
  const server = await startTestServer(t)
  const env = { ...process.env, DATA_DIR: server.dataDir, PUBLIC_URL: server.url, ADMIN_PASSWORD }
  const { stdout } = await run(process.execPath, ['--import', 'tsx', mergelog, 'demo'], {
    env,
    cwd: process.cwd(),
  })
  t.match(stdout, /PullRequestOpened[\s\S]*MergeStarted[\s\S]*PullRequestMerged/)
  t.match(stdout, /all as it should be/)
  const wrong = run(process.execPath, ['--import', 'tsx', mergelog, 'demo'], {
    env: { ...env, ADMIN_PASSWORD: 'not the password' },
  })
  await t.rejects(wrong, { code: 1 }, 'and ends non-zero when something differs')
})
