import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'

const { repository } = await startPulls(t)

/** The numbers of the pull requests that a query finds, and their total. */
function finder({ call }: Pick<Awaited<ReturnType<typeof repository>>, 'call'>) {
  return async (query: string) => {
    const { body, headers } = await call(null, 'GET', `pulls?${query}`)
    return [body.map(({ number }: { number: number }) => number), headers.get('x-total-count')]
  }
}

t.test(
  'pulls.list.2: `labels` of the list of pull requests: any of them; a value that is not a number is 422',
  async (t) => {
    const hosted = await repository(t, 'labels')
    const { branches, open, label, call } = hosted
    await branches('one', 'two', 'three')
    const [a, b, c] = [await label('a'), await label('b'), await label('c')]
    await open('one', { labels: [a] })
    await open('two', { labels: [a, b] })
    await open('three')
    const found = finder(hosted)
    t.strictSame(await found(`labels=${a}`), [[2, 1], '2'])
    t.strictSame(await found(`labels=${b}&labels=${c}`), [[2], '1'])
    t.strictSame(await found(`labels=${a}&labels=${b}`), [[2, 1], '2'])
    t.strictSame(await found(`labels=${c}`), [[], '0'])
    t.strictSame(await found('labels='), [[3, 2, 1], '3'], 'nothing is asked for')
    for (const odd of ['a', `${a},${b}`, '1.5', '-1', `${a}&labels=bug`]) {
      t.match(await call(null, 'GET', `pulls?labels=${odd}`), {
        status: 422,
        errors: ['labels: must be ids of labels'],
      })
    }
  },
)

t.test('`assignees` of a pull request without any is [], not null', async (t) => {
  const { branches, open, get, call } = await repository(t, 'assignees')
  await branches('one')
  const number = await open('one')
  t.strictSame((await get(number)).assignees, [])
  t.strictSame((await call(null, 'GET', 'pulls')).body[0].assignees, [])
  t.equal((await call(null, 'GET', 'issues')).body[0].assignees, null, 'of an issue it is null')
})

t.test('`mergeable` of a work in progress is false', async (t) => {
  const { branches, open, get, call } = await repository(t, 'progress')
  await branches('one')
  const number = await open('one', { title: 'WIP: One' })
  t.match(await get(number), { mergeable: false, draft: true })
  t.match((await call(null, 'GET', 'pulls')).body, [{ mergeable: false }])
  t.equal((await call('alice', 'PATCH', `pulls/${number}`, { title: 'One' })).status, 201)
  t.match(await get(number), { mergeable: true, draft: false })
})

t.test('pulls.list.1: `sort=recentclose` of pulls: the last closed one comes first', async (t) => {
  const hosted = await repository(t, 'closed')
  const { branches, open, call } = hosted
  const heads = ['one', 'two', 'three', 'four']
  await branches(...heads)
  for (const head of heads) await open(head)
  for (const number of [3, 1, 2]) {
    t.equal((await call('alice', 'PATCH', `pulls/${number}`, { state: 'closed' })).status, 201)
  }
  const found = finder(hosted)
  t.strictSame(await found('state=closed&sort=recentclose'), [[2, 1, 3], '3'])
  t.strictSame(await found('state=all&sort=recentclose'), [[2, 1, 3, 4], '4'], 'open ones come last')
  t.strictSame(await found('state=closed&sort=recentclose&limit=1&page=2'), [[1], '3'])
})
