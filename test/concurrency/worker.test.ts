import { setImmediate as nextIteration } from 'node:timers/promises'
import t from 'tap'
import { createWorker, type Work } from '../../src/concurrency/worker.ts'
import type { Test } from '../commands/pull-requests/pull-repository.ts'
import { until } from '../until.ts'

/** A worker whose jobs run until the test ends them. `log`: the started jobs, in order. */
function worker(
  t: Test,
  { places = 2, stored = [] as Work[], hold = (): string | undefined => 'here' } = {},
) {
  const ending = new AbortController()
  const log: string[] = []
  const failures: number[] = []
  const open = new Map<string, { end(again?: number): void; fail(error: Error): void }>()
  const fair = createWorker<Work>(
    {
      places,
      pauseMs: 1,
      async load() {
        for (const one of stored) void fair.add(one)
      },
      work({ id }, failed) {
        log.push(id)
        failures.push(failed)
        return new Promise((end, fail) => open.set(id, { end, fail }))
      },
      failed() {},
    },
    ending.signal,
  )
  t.teardown(async () => {
    ending.abort()
    for (const { end } of open.values()) end()
    await fair.stopped()
  })
  fair.start(hold)
  const end = (id: string, again?: number) => open.get(id)?.end(again)
  const fail = (id: string) => open.get(id)?.fail(new Error(`${id} failed`))
  const begins = (...ids: string[]) => until(`${ids} have begun`, () => `${log}` === `${ids}`)
  return { fair, failures, end, fail, begins }
}

const of = (account: string, id: string): Work => ({ account, id })

t.test('an account has one slot, and the account with the least run time is next', async (t) => {
  const { fair, begins, end } = worker(t)
  for (const id of ['a1', 'a2', 'a3']) void fair.add(of('alice', id))
  void fair.add(of('bob', 'b1'))
  await begins('a1', 'b1')
  void fair.add(of('carol', 'c1'))
  await nextIteration()
  end('a1')
  await begins('a1', 'b1', 'c1')
  end('c1')
  await begins('a1', 'b1', 'c1', 'a2')
})

t.test('a job that is added again while it runs is run once more', async (t) => {
  const { fair, begins, end } = worker(t)
  const first = fair.add(of('alice', 'a'))
  await begins('a')
  const again = [fair.add(of('alice', 'a')), fair.add(of('alice', 'a'))]
  t.equal(again[0], again[1], 'however often it is added, it is one')
  end('a')
  await first
  await begins('a', 'a')
  end('a')
  await Promise.all(again)
})

t.test('a failed job is retried, and its promise resolves when it is done', async (t) => {
  const { fair, failures, begins, end, fail } = worker(t)
  const done = fair.add(of('alice', 'a'))
  await begins('a')
  fail('a')
  await begins('a', 'a')
  fail('a')
  await begins('a', 'a', 'a')
  end('a')
  await done
  t.strictSame(failures, [0, 1, 2])
})

t.test('a job that is added while it fails keeps its failures and its backoff', async (t) => {
  const { fair, failures, begins, end, fail } = worker(t)
  void fair.add(of('alice', 'a1'))
  await begins('a1')
  const added = fair.add(of('alice', 'a1'))
  fail('a1')
  await begins('a1', 'a1')
  t.strictSame(failures, [0, 1])
  end('a1')
  await added
})

t.test('a job that names its next run is run again, and a removed one is not', async (t) => {
  const { fair, begins, end } = worker(t, { places: 1 })
  const first = fair.add(of('alice', 'a'))
  await begins('a')
  void fair.add(of('bob', 'b'))
  t.notOk(fair.remove('b'), 'it was not being done')
  end('a', 0)
  await first
  await begins('a', 'a')
  t.ok(fair.remove('a'))
  void fair.add(of('alice', 'later'), 3_600_000)
  void fair.add(of('alice', 'c'))
  end('a', 3_600_000)
  await begins('a', 'a', 'c')
  t.same(fair.waiting('a'), of('alice', 'a'))
})

t.test(
  'a node that starts the process runs all waiting jobs, and a node that stops it runs no more',
  async (t) => {
    let held: string | undefined = 'here'
    const { fair, begins, end } = worker(t, { stored: [of('alice', 'stored')], hold: () => held })
    await begins('stored')
    void fair.add(of('alice', 'new'))
    held = undefined
    end('stored')
    await nextIteration()
    held = 'here'
    await begins('stored', 'stored')
  },
)

t.test('a node that regains the process before its first check runs all waiting jobs', async (t) => {
  let held = 'first'
  const { begins, end } = worker(t, { stored: [of('alice', 'stored')], hold: () => held })
  await begins('stored')
  held = 'second'
  end('stored')
  await begins('stored', 'stored')
})
