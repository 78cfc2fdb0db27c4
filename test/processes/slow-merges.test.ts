import t from 'tap'
import { checkMergeability } from '../../src/commands/pull-requests/check-mergeability.ts'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { aContext } from '../stores.ts'
import { until } from '../until.ts'

t.test(
  'a merge that takes too long to try counts as one that cannot be done, and is not tried again',
  async (t) => {
    const { server, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
    const { branch, open, repoId, eventsOf } = await repository(t, 'slow')
    await branch('topic', { 'a.txt': 'of the topic\n' })
    const index = await open('topic')
    await branch('main', { 'a.txt': 'of main\n' }, 'main')
    const lastCheck = async () =>
      (await eventsOf(index)).findLast(({ type }) => type === 'MergeabilityChecked')
    await until('it was tried', async () => (await lastCheck()) !== undefined)
    t.match((await lastCheck())?.data, { mergeable: false, conflicts: ['a.txt'] })

    await checkMergeability(server.services, aContext(), repoId, [{ repoId, index }], 0)
    t.match((await lastCheck())?.data, { mergeable: false, conflicts: [] })
    const { status, body } = await server
      .fetch('alice', `/api/v1/repos/alice/slow/pulls/${index}`)
      .then(async (answer) => ({ status: answer.status, body: await answer.text() }))
    t.equal(status, 200)
    t.match(body, /"mergeable":false/)
  },
)
