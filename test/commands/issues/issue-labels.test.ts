import t from 'tap'
import { workTree } from '../../git-client.ts'
import { statusOf } from '../../start-server.ts'
import { startIssues } from './setup.ts'

const { server, alice, bob, carol, call, repository } = await startIssues(t)

const names = (labels: readonly { name?: string }[]) => labels.map(({ name }) => name)

t.test('labels are added, replaced, removed and cleared, by id or by name', async (t) => {
  const { open, label, get, events } = await repository('crud')
  const [bug, idea, later] = [await label('bug'), await label('idea'), await label('Later')]
  await open()
  const { repos } = carol
  const added = await repos.issueAddLabel('alice', 'crud', 1, { labels: [bug] })
  t.equal(added.status, 200)
  t.match(added.data, [
    { id: bug, name: 'bug', color: 'aabbcc', url: `${server.url}/api/v1/repos/alice/crud/labels/${bug}` },
  ])
  t.same(
    (await repos.issueAddLabel('alice', 'crud', 1, { labels: ['Later', idea, bug] })).data
      .map(({ id }) => id)
      .sort(),
    [bug, idea, later].sort(),
  )
  t.same(names((await server.anonymous.repos.issueGetLabels('alice', 'crud', 1)).data).sort(), [
    'Later',
    'bug',
    'idea',
  ])
  t.same(names((await get(1)).labels ?? []).sort(), ['Later', 'bug', 'idea'])

  t.equal((await repos.issueRemoveLabel('alice', 'crud', 1, bug)).status, 204)
  t.equal((await repos.issueRemoveLabel('alice', 'crud', 1, bug)).status, 204, 'it does not have it any more')
  t.same(names((await repos.issueGetLabels('alice', 'crud', 1)).data).sort(), ['Later', 'idea'])
  const replaced = await repos.issueReplaceLabels('alice', 'crud', 1, { labels: ['bug'] })
  t.same([replaced.status, names(replaced.data)], [200, ['bug']])
  t.equal((await repos.issueClearLabels('alice', 'crud', 1)).status, 204)
  t.same((await repos.issueGetLabels('alice', 'crud', 1)).data, [])
  t.same(
    (await events(1)).flatMap((event) =>
      event.type === 'LabelsChanged'
        ? [[names(event.data.added).sort(), names(event.data.removed).sort()]]
        : [],
    ),
    [
      [['bug'], []],
      [['Later', 'idea'], []],
      [[], ['bug']],
      [['bug'], ['Later', 'idea']],
      [[], ['bug']],
    ],
  )
})

t.test('only writers change labels: 403 for others, also for the poster', async (t) => {
  const { open, label, issues } = await repository('rights')
  const bug = await label('bug')
  await open({ labels: [bug] }, 'carol')
  await open({}, 'bob')
  const hidden = await repository('hidden', { private: true })
  await hidden.open()
  for (const [method, path, body] of [
    ['POST', 'labels', { labels: [bug] }],
    ['PUT', 'labels', { labels: [bug] }],
    ['DELETE', 'labels', undefined],
    ['DELETE', `labels/${bug}`, undefined],
  ] as const) {
    t.equal((await call('bob', method, `${issues}/2/${path}`, body)).status, 403)
    t.equal((await call(null, method, `${issues}/2/${path}`, body)).status, 401)
    t.equal((await call('bob', method, `${hidden.issues}/1/${path}`, body)).status, 404)
    t.equal((await call('carol', method, `${issues}/3/${path}`, body)).status, 404)
    for (const index of ['0', '-1', 'x', '9223372036854775808']) {
      t.equal((await call('carol', method, `${issues}/${index}/${path}`, body)).status, 404)
    }
  }
  t.equal((await call('bob', 'GET', `${hidden.issues}/1/labels`)).status, 404)
  t.equal((await call('bob', 'GET', `${issues}/3/labels`)).status, 404)
  t.same(names((await bob.repos.issueGetLabels('alice', 'rights', 1)).data), ['bug'])
  t.same((await bob.repos.issueGetLabels('alice', 'rights', 2)).data, [])
})

t.test('unknown labels are ignored; a value that is not a label gives 422', async (t) => {
  const { open, label, issues } = await repository('odd')
  const far = await (await repository('far')).label('far')
  const own = await label('own')
  await open()
  const answer = async (method: string, body: unknown) => {
    const { status, body: labels } = await call('carol', method, `${issues}/1/labels`, body)
    return status === 200 ? names(labels) : status
  }
  t.same(await answer('POST', { labels: [far, 9_999_999, -1, 'far', 'OWN', '', own] }), ['own'])
  t.same(await answer('POST', { labels: [] }), ['own'])
  t.same(await answer('POST', { labels: null }), ['own'])
  const many = Array.from({ length: 2000 }, (_, i) => i + 1)
  for (const labels of [undefined, 'own', [1.5], [null], [[own]], many, many.map(String)]) {
    t.equal(await answer('POST', { labels }), 422)
    t.equal(await answer('PUT', { labels }), 422)
  }
  t.same(await answer('PUT', { labels: null }), [])
  const remove = async (id: unknown) => (await call('carol', 'DELETE', `${issues}/1/labels/${id}`)).status
  t.equal(await remove(far), 422, 'a label of another repository')
  t.equal(await remove(9_999_999), 422)
  for (const id of ['0', '-1', 'far', 'OWN', '9223372036854775808']) t.equal(await remove(id), 422)
  t.same(await answer('POST', { labels: [] }), [])
  t.same(await answer('POST', { labels: ['own'] }), ['own'])
  t.equal(await remove('own'), 204, '`labels/{name}`')
  t.same(await answer('POST', { labels: [] }), [])
})

t.test('of exclusive labels of one scope, the last one remains', async (t) => {
  const { open, label, issues } = await repository('exclusive')
  const [low, high] = [await label('p/low', { exclusive: true }), await label('p/high', { exclusive: true })]
  const bug = await label('bug')
  await open()
  const answer = async (method: string, labels: unknown[]) =>
    names((await call('carol', method, `${issues}/1/labels`, { labels })).body)
  t.same(await answer('POST', [low, bug]), ['p/low', 'bug'])
  t.same(await answer('POST', [high]), ['bug', 'p/high'])
  t.same(await answer('POST', [high, low]), ['bug', 'p/low'])
  t.same(await answer('PUT', [low, high]), ['p/high'])
  const other = await label('P/other', { exclusive: true })
  t.same(await answer('POST', [other]), ['P/other'], 'a scope ignores case')
})

t.test('labels of the organization, too', async (t) => {
  await alice.orgs.orgCreate({ username: 'guild' })
  const { data: wide } = await alice.orgs.orgCreateLabel('guild', { name: 'wide', color: '#fff' })
  const { open, issues } = await repository('hall', {}, 'guild')
  await open()
  const { body } = await call('carol', 'POST', `${issues}/1/labels`, { labels: ['wide'] })
  t.match(body, [{ id: wide.id, url: `${server.url}/api/v1/orgs/guild/labels/${wide.id}` }])
  t.equal((await carol.repos.issueRemoveLabel('guild', 'hall', 1, wide.id ?? 0)).status, 204)
  t.same((await carol.repos.issueGetLabels('guild', 'hall', 1)).data, [])
})

t.test('a pull request has labels, too', async (t) => {
  const { label, get } = await repository('pulls', { auto_init: true })
  const bug = await label('bug')
  const work = await workTree(t, server.gitUrl('alice', 'alice/pulls'))
  await work.git('checkout', '-q', '-b', 'topic')
  await work.commit('Topic', { topic: 'x\n' })
  await work.git('push', '-q', 'origin', 'topic')
  await alice.repos.repoCreatePullRequest('alice', 'pulls', { head: 'topic', base: 'main', title: 'Topic' })
  t.same(names((await carol.repos.issueAddLabel('alice', 'pulls', 1, { labels: [bug] })).data), ['bug'])
  t.match((await alice.repos.repoGetPullRequest('alice', 'pulls', 1)).data.labels, [{ id: bug }])
  t.match((await get(1)).labels, [{ id: bug }])
  t.match((await alice.repos.repoListPullRequests('alice', 'pulls', { labels: [bug] })).data, [{ number: 1 }])
  await carol.repos.issueClearLabels('alice', 'pulls', 1)
  t.same((await alice.repos.repoGetPullRequest('alice', 'pulls', 1)).data.labels, [])
})

t.test('deleting or renaming a label changes its issues, too', async (t) => {
  const { open, label, get } = await repository('changes')
  const [bug, idea] = [await label('bug'), await label('idea')]
  await open({ labels: [bug, idea] })
  await alice.repos.issueEditLabel('alice', 'changes', idea, { name: 'thought' })
  await alice.repos.issueDeleteLabel('alice', 'changes', bug)
  t.same(names((await get(1)).labels ?? []), ['thought'])
  t.same(names((await carol.repos.issueGetLabels('alice', 'changes', 1)).data), ['thought'])
  t.equal(await statusOf(carol.repos.issueRemoveLabel('alice', 'changes', 1, bug)), 422)
  const later = await label('later')
  const { data } = await carol.repos.issueAddLabel('alice', 'changes', 1, { labels: [later] })
  t.same(names(data), ['thought', 'later'])
})

t.test('labels that are added at the same time are all kept', async (t) => {
  const { open, label, issues, get } = await repository('rush')
  const labels = await Promise.all(['a', 'b', 'c', 'd'].map((name) => label(name)))
  await open()
  const answers = await Promise.all(
    labels.map((id) => call('carol', 'POST', `${issues}/1/labels`, { labels: [id] })),
  )
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  t.same(names((await get(1)).labels ?? []).sort(), ['a', 'b', 'c', 'd'])
  const headers = { 'idempotency-key': 'k' }
  await call('carol', 'DELETE', `${issues}/1/labels`)
  const give = (id: number) => call('carol', 'POST', `${issues}/1/labels`, { labels: [id] }, headers)
  const [first = 0, second = 0] = labels
  t.equal((await give(first)).status, 200)
  t.equal((await give(first)).status, 200)
  t.equal((await give(second)).status, 422)
})
