import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const bench = fileURLToPath(new URL('../../bench/bench.ts', import.meta.url))

t.test('the quick bench seeds a log, serves it, and prints the row that was asked for', async (t) => {
  const args = ['--import', 'tsx', bench, '--quick', '--only', 'get']
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args)
  t.equal(stderr, '')
  const [headings = '', row = '', ...more] = stdout.trim().split('\n')
  t.match(headings, /^work +measured +ceiling +ratio +goal/)
  t.match(row, /^get one pull request +[\d,]+\/s +[\d,]+\/s bare fastify +\d+\.\d\d +>= 0\.5 +(ok|missed)$/)
  t.strictSame(more, [])
})

t.test('a row that does not exist is named', async (t) => {
  const run = promisify(execFile)(process.execPath, ['--import', 'tsx', bench, '--only', 'get,nothing'])
  await t.rejects(run, { stderr: /^--only: nothing is none of get, list/ })
})
