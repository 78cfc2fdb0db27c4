import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { startProcess, unusable } from '../../../src/git/process/child-process.ts'
import { gitEnvironment } from '../../../src/git/process/environment.ts'
import { GitUnavailable, RepositoryMissing } from '../../../src/git/process/errors.ts'
import { until } from '../../until.ts'

t.test('an unreadable repository is a host failure, and a missing one is not found', async (t) => {
  const dir = t.testdir({ bare: { HEAD: 'ref: refs/heads/main\n', objects: {} } })
  const ending = { code: 128, stderr: 'fatal: not a git repository: (NULL)' }
  t.ok((await unusable(ending, join(dir, 'none'))) instanceof RepositoryMissing)
  t.ok((await unusable(ending, join(dir, 'bare'))) instanceof RepositoryMissing)
  // Unlike a directory without permissions, a link to itself is unreadable even for root.
  for (const name of ['round', 'bare/refs']) await symlink(join(dir, name), join(dir, name))
  t.ok((await unusable(ending, join(dir, 'bare'))) instanceof GitUnavailable)
  const trouble = await unusable(ending, join(dir, 'round'))
  t.ok(trouble instanceof GitUnavailable)
  t.match(trouble?.cause, { code: 'ELOOP' }, 'the log says why')
})

t.test('buffered output waits for a reader that starts after the end of the process', async (t) => {
  const git = await startProcess('git', ['--version'], gitEnvironment([]), { keepsOutput: true })
  await until('the process ends', () => git.hasEnded())
  t.match(await text(git.stdout), /^git version/)
  t.match(await git.ended, { code: 0 })
})

t.test('output without a reader is dropped, so that the process can end', async (t) => {
  const git = await startProcess('git', ['--version'], gitEnvironment([]))
  t.match(await git.ended, { code: 0 })
  t.ok(git.stdout.closed)
})
