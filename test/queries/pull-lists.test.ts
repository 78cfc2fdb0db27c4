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
  '`labels` of the list of pull requests: any of them; a value that is not a number is 422',
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
