/** The current state on the page of a pull request. */
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { until } from '../until.ts'

const pulls = await startPulls(t)
const app = await pulls.repository(t, 'app', { writers: ['bob', 'carol'] })
await app.commit('Code', { 'a.txt': 'text\n' })
await app.push('main')

const factsOf = async (index: number, login: string | null = 'alice', query = '') => {
  const answer = await pulls.server.fetch(login, `/ui/alice/app/pulls/${index}?part=moment${query}`)
  t.equal(answer.status, 200)
  const text = await answer.text()
  return new Map(
    [...text.matchAll(/<div><dt>([^<]+)<\/dt><dd>(.*?)<\/dd><\/div>/gs)].map(([, name, value = '']) => [
      name,
      value
        .replaceAll(/<\/li>/g, '; ')
        .replaceAll(/<[^>]+>/g, '')
        .trim(),
    ]),
  )
}

const post = (path: string, body: object, login = 'alice') => app.call(login, 'POST', path, body)

t.test('the page says "can be merged: no, because …" with every reason', async (t) => {
  await app.branch('rules', { 'b.txt': 'text\n' })
  const index = await app.open('rules', { title: 'WIP: rules' }, 'bob')
  t.equal((await factsOf(index)).get('Can be merged'), 'no, because the pull request is a work in progress;')
  await post('branch_protections', {
    rule_name: 'main',
    enable_status_check: true,
    status_check_contexts: ['ci'],
    required_approvals: 1,
    enable_push: true,
  })
  const reasons = (await factsOf(index)).get('Can be merged') ?? ''
  t.match(reasons, /the pull request is a work in progress/)
  t.match(reasons, /protection &#34;main&#34;: the required status checks are pending/)
  t.match(reasons, /protection &#34;main&#34;: .*approval/)
  for (const login of ['dave', null]) {
    const told = (await factsOf(index, login)).get('Can be merged')
    t.equal(told, 'no, because the pull request is a work in progress;', 'others are not told the rules')
  }
  await app.edit(index, { title: 'Rules' }, 'bob')

  const sha = (await app.get(index)).head?.sha
  const ci = {
    context: 'ci',
    state: 'success',
    target_url: 'https://ci.example.org/1',
    description: 'all <b>',
  }
  await post(`statuses/${sha}`, ci)
  await post(`pulls/${index}/reviews`, { event: 'APPROVED' }, 'carol')
  const facts = await factsOf(index)
  t.equal(facts.get('Can be merged'), 'yes')
  t.equal(facts.get('Checks'), 'ci: success all &#60;b&#62;;')
  t.match(facts.get('Reviews'), /^carol approved [0-9a-f]{10};$/)
  const { text } = await page(index)
  t.match(text, '<a href="https://ci.example.org/1" rel="nofollow"><bdi>ci</bdi></a>')
  t.equal((await factsOf(index, 'alice', '&revision=0')).get('Checks'), undefined, 'a past moment has none')
})

const page = async (index: number) => {
  const answer = await pulls.server.fetch(null, `/ui/alice/app/pulls/${index}`)
  return { status: answer.status, text: await answer.text() }
}

t.test('the page names the schedule and its unmet conditions', async (t) => {
  await app.branch('later', { 'c.txt': 'text\n' })
  const index = await app.open('later', {}, 'bob')
  await post(`pulls/${index}/merge`, { Do: 'squash', merge_when_checks_succeed: true })
  t.match(
    (await factsOf(index)).get('Scheduled'),
    /^alice scheduled the merge as one squashed commit, which waits for /,
  )
})

t.test('the page names the files in conflict', async (t) => {
  await app.branch('conflict', { 'a.txt': 'one\n' })
  const index = await app.open('conflict', {}, 'bob')
  await app.branch('another', { 'a.txt': 'two\n' })
  await app.push('another:main')
  await until('the conflict is known', async () =>
    /it has conflicts in a\.txt/.test((await factsOf(index, 'dave')).get('Can be merged') ?? ''),
  )
  t.match((await factsOf(index)).get('Can be merged'), 'it has conflicts in a.txt')
})
