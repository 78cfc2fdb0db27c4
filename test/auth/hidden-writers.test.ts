/** Review requests of strangers do not reveal the writers of a public repository. */
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'

const { server, repository, alice } = await startPulls(t)

t.test('a stranger’s request for reviews does not reveal whose review is official', async (t) => {
  const made = await repository(t, 'reviewed', { writers: ['carol'] })
  const fork = await made.fork('bob')
  await fork.branch('topic', { topic: 'x' })
  const index = await made.open('bob:topic', {}, 'bob')
  const path = `pulls/${index}/requested_reviewers`
  const asked = await made.call('bob', 'POST', path, { reviewers: ['carol', 'dave'] })
  t.equal(asked.status, 201)
  t.strictSame(
    asked.body.map(({ official }: { official: boolean }) => official),
    [false, false],
  )
  const { text } = await made.call('bob', 'GET', `issues/${index}/history`)
  t.notMatch(text, /"official":true/)
  const again = await made.call('carol', 'POST', path, { reviewers: ['alice'] })
  t.strictSame(again.body.at(-1).official, true)
})

t.test('a stranger cannot discover a team of the organization by asking for its review', async (t) => {
  await alice.orgs.orgCreate({ username: 'people' })
  await alice.orgs.createOrgRepo('people', { name: 'app', auto_init: true })
  await alice.orgs.orgCreateTeam('people', { name: 'readers', permission: 'read' })
  const bob = await server.as('bob')
  await bob.repos.createFork('people', 'app', {})
  const commit = { content: 'eA==', message: 'x', branch: 'main', new_branch: 'topic' }
  await bob.repos.repoCreateFile('bob', 'app', 'new', commit)
  const option = { head: 'bob:topic', base: 'main', title: 'x' }
  const { data } = await bob.repos.repoCreatePullRequest('people', 'app', option)
  const ask = async (method: string, team: string) => {
    const init = { method, body: JSON.stringify({ team_reviewers: [team] }) }
    const answer = await server.fetch(
      'bob',
      `/api/v1/repos/people/app/pulls/${data.number}/requested_reviewers`,
      init,
    )
    return [answer.status, await answer.text()]
  }
  for (const method of ['POST', 'DELETE']) {
    const unknown = await ask(method, 'nobody')
    t.equal(unknown[0], 404)
    t.strictSame(await ask(method, 'readers'), unknown)
    t.strictSame(await ask(method, 'Owners'), unknown)
  }
})
