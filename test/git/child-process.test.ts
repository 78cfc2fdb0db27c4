import { text } from 'node:stream/consumers'
import t from 'tap'
import { startProcess } from '../../src/git/child-process.ts'
import { gitEnvironment } from '../../src/git/environment.ts'
import { until } from '../until.ts'

t.test('output that is kept waits for a reader who comes after the end of the process', async (t) => {
  const git = await startProcess('git', ['--version'], gitEnvironment([]), { keepsOutput: true })
  await until('the process ends', () => git.hasEnded())
  t.match(await text(git.stdout), /^git version/)
  t.match(await git.ended, { code: 0 })
})

t.test('other output is dropped when nobody reads it, so that the process is done', async (t) => {
  const git = await startProcess('git', ['--version'], gitEnvironment([]))
  t.match(await git.ended, { code: 0 })
  t.ok(git.stdout.closed)
})
