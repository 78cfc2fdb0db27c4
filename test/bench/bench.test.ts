import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { NODE_ARGS, program } from '../program.ts'

t.test('a row that does not exist is named, and nothing is measured', async (t) => {
  const run = promisify(execFile)(process.execPath, [
    ...NODE_ARGS,
    program('bench/bench'),
    '--only',
    'get,nothing,history',
  ])
  await t.rejects(run, { code: 2, message: /--only: nothing is none of get, list, .*, history\n/ })
})
