import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { program } from '../program.ts'

t.test('npm run bench names an unknown group, and measures nothing', async (t) => {
  const run = promisify(execFile)(process.execPath, [program('bench/bench'), '--only', 'get,nothing,history'])
  await t.rejects(run, {
    code: 2,
    message: /--only: nothing is not one of get, list, .*, history, eventstore\n/,
  })
})

t.test('npm run bench names a number of nodes that it cannot start, and measures nothing', async (t) => {
  const run = promisify(execFile)(process.execPath, [program('bench/bench'), '--nodes', '0'])
  await t.rejects(run, { code: 2, message: /--nodes: must be a whole number from 1 to 9\n/ })
})
