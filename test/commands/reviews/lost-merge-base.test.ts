/** Approvals of a pull request whose merge base is missing in git. */
import { rm } from 'node:fs/promises'
import t from 'tap'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { repository } = await startPulls(t)

t.test('a missing merge base does not delay other pull requests, and makes approvals stale', async (t) => {
  const { work, branch, push, open, call, objectFile } = await repository(t, 'pruned', { writers: ['bob'] })
  const last = async (index: number) => (await call('bob', 'GET', `pulls/${index}/reviews`)).body.at(-1)
  const orphan = async (name: string) => {
    await work.git('checkout', '-q', '--orphan', name)
    await work.git('commit', '-q', '--allow-empty', '-m', name)
    await push(name)
    return await work.git('rev-parse', 'HEAD')
  }
  const pruned = await orphan('prepared')
  await branch('topic', { a: 'x' }, 'prepared')
  const index = await open('topic', { base: 'prepared' })
  await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
  const shared = await orphan('other')
  await branch('other', { b: 'y' }, 'other')
  await push('other:topic')
  await orphan('third')
  await push('third:prepared')
  await until('the head has moved', async () => (await last(index)).stale)
  await rm(objectFile(pruned))
  await push(`${shared}:prepared`)
  await until('the merge base has moved', async () => {
    return (await call('bob', 'GET', `pulls/${index}`)).body.merge_base === shared
  })
  t.match(await last(index), { stale: true })
})
