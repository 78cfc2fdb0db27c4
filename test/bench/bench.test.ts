import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const bench = fileURLToPath(new URL('../../bench/bench.ts', import.meta.url))

t.test('npm run bench names an unknown group, and measures nothing', async (t) => {
  const run = promisify(execFile)(process.execPath, [
    '--import',
    'tsx',
    bench,
    '--only',
    'get,nothing,history',
  ])
  await t.rejects(run, { code: 2, message: /--only: nothing is not one of get, list, .*, history\n/ })
})
