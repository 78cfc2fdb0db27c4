/** Names that clients would read as another ref or as an id are refused for new branches and tags, by API and push. */
import t from 'tap'
import { workTree } from '../../git-client.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

const { server, repository } = await startPulls(t)

t.test('no branch or tag may have a name that reads as a whole ref or as an id', async (t) => {
  const made = await repository(t, 'names')
  await made.branch('topic', { topic: 'x' })
  const work = await workTree(t, server.gitUrl('alice', 'alice/names'))
  const refs = async () => (await made.call('alice', 'GET', 'git/refs')).text
  const before = await refs()
  const file = { content: 'eA==', branch: 'main' }
  for (const name of ['refs/heads/main', 'refs/tags/v1', 'a'.repeat(40), 'HEAD', '@', '-x']) {
    const statuses = [
      await made.call('alice', 'POST', 'branches', { new_branch_name: name }),
      await made.call('alice', 'PATCH', 'branches/topic', { name }),
      await made.call('alice', 'POST', 'contents/new', { ...file, new_branch: name }),
    ].map(({ status }) => status)
    t.strictSame(statuses, [422, 422, 422], name)
    await t.rejects(work.git('push', 'origin', `HEAD:refs/heads/${name}`), name)
  }
  for (const name of ['refs/heads/main', 'a'.repeat(40), '-x']) {
    t.equal((await made.call('alice', 'POST', 'tags', { tag_name: name })).status, 422, name)
    t.equal((await made.call('alice', 'POST', 'releases', { tag_name: name })).status, 422, name)
  }
  t.equal(await refs(), before)
})
