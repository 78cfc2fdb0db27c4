import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t from 'tap'
import { createLoopScheduler } from '../../src/concurrency/event-loop.ts'
import { createRecentUse } from '../../src/concurrency/recent-use.ts'

/** A loop scheduler with a clock that moves only with work. */
function steppedLoop() {
  const loop = { clock: 0, turn: 0, next: [] as (() => void)[] }
  const turns = createLoopScheduler(
    () => loop.clock,
    (next) => loop.next.push(next),
  )
  const done: { key: string; turn: number }[] = []
  /** Simulates this many milliseconds of work. */
  function busy(key: string, ms: number): void {
    loop.clock += ms
    done.push({ key, turn: loop.turn })
  }
  /** Runs one iteration of the loop. */
  async function round(): Promise<void> {
    loop.turn += 1
    for (const next of loop.next.splice(0)) next()
    await nextIteration()
  }
  return {
    loop,
    turns,
    done,
    busy,
    round,
    /** Schedules work of this duration. */
    ask(key: string, ms = 1): void {
      turns.scheduleWork(key, () => busy(key, ms))
    },
    /** Returns the further work, until the queue is empty. */
    async rest(): Promise<string[]> {
      const from = done.length
      while (loop.next.length > 0) await round()
      return done.slice(from).map(({ key }) => key)
    },
  }
}

t.test('long work runs one slice per iteration of the event loop, and keys alternate', async (t) => {
  const { turns, done, busy, rest } = steppedLoop()
  async function work(key: string, pieces: number): Promise<void> {
    for (let i = 0; i < pieces; i++) {
      await turns.nextSlice(key)
      busy(key, 5)
    }
  }
  const all = [work('many', 3), work('many', 3), work('many', 3), work('few', 3)]
  const order = await rest()
  await Promise.all(all)
  t.equal(new Set(done.map(({ turn }) => turn)).size, 12, 'never two in one turn')
  t.ok(order.lastIndexOf('few') < 7, `who has little to do does not wait for who has much: ${order}`)
  const later = work('later', 1)
  t.strictSame(await rest(), ['later'])
  await later
})

t.test('requests start at once while an iteration has time; then networks alternate', async (t) => {
  const { loop, turns, done, busy, rest } = steppedLoop()
  const one = (key: string) =>
    new Promise<void>((resolve) => {
      turns.scheduleWork(key, async () => {
        // Work after an answer that already exists belongs to the request.
        await Promise.resolve()
        await Promise.resolve()
        busy(key, 5)
        resolve()
      })
    })
  const short: string[] = []
  for (const name of ['a', 'b']) turns.scheduleWork('short', () => short.push(name))
  t.strictSame(short, ['a', 'b'], 'short ones do not wait')
  await one('many')
  t.strictSame(done, [{ key: 'many', turn: loop.turn }])
  const all = [...Array.from({ length: 6 }, () => one('many')), one('few')]
  await rest()
  await Promise.all(all)
  const place = done.findIndex(({ key }) => key === 'few')
  t.ok(place <= 2, `one of another network does not wait for all of them: ${place}`)
  t.equal(new Set(done.map(({ turn }) => turn)).size, done.length, 'no turn has two long ones')
})

t.test('a key with much recent use waits behind other keys, and gets less of an iteration', async (t) => {
  const { loop, done, ask, round, rest } = steppedLoop()
  for (let i = 0; i < 200; i++) ask('greedy')
  await rest()
  t.equal(done.length, 200)

  for (let i = 0; i < 4; i++) ask('greedy')
  await round()
  const begun = done.length
  ask('honest')
  t.match(done[begun], { key: 'honest' }, 'the rest of a turn is for the others, who do not wait')
  await nextIteration()
  ask('other', 5)
  ask('third')
  t.equal(done.length, begun + 2, 'while the turn has time')
  t.strictSame(await rest(), ['third', 'greedy', 'greedy'], 'who has used less comes first, and all come')

  for (let i = 0; i < 3; i++) ask('greedy')
  await round()
  t.equal(new Set(done.slice(-2).map(({ turn }) => turn)).size, 2, 'one piece in each turn')
  await rest()
  loop.clock += 10_000
  for (let i = 0; i < 3; i++) ask('greedy')
  await round()
  t.equal(new Set(done.slice(-3).map(({ turn }) => turn)).size < 3, true, 'what was long ago is forgotten')
})

t.test('work on behalf of an account counts for it, not for the address', async (t) => {
  const loop = { clock: 0, next: [] as (() => void)[] }
  const turns = createLoopScheduler(
    () => loop.clock,
    (next) => loop.next.push(next),
  )
  const order: string[] = []
  /** A request: its sign-in counts for the office, its work counts for the account. */
  const request = (account: string, ms: number) =>
    turns.scheduleWork('office', () =>
      turns.scheduleWork(account, () => {
        loop.clock += ms
        order.push(account)
      }),
    )
  async function rest(): Promise<void> {
    while (loop.next.length > 0) {
      for (const next of loop.next.splice(0)) next()
      await nextIteration()
    }
  }
  for (let i = 0; i < 100; i++) {
    request('greedy', 4)
    await rest()
  }
  order.length = 0
  request('first', 4)
  for (const account of ['greedy', 'greedy', 'honest']) request(account, 1)
  await rest()
  t.strictSame(order, ['first', 'honest', 'greedy', 'greedy'])
})

t.test('recent use counts half after each half-life, and never overflows', async (t) => {
  let clock = 0
  const use = createRecentUse(1000, () => clock)
  use.add('a', 8)
  clock = 1000
  t.equal(use.of('a'), 4)
  use.add('a', 4)
  use.add('b', 7)
  t.equal(Math.round(use.of('a')), 8)
  t.equal(use.least(['a', 'b']), 'b')
  t.equal(use.least(['a', 'b', 'c', 'd']), 'c', 'the first of those that have used nothing')
  t.equal(use.least([]), undefined)
  clock = 1e12
  t.equal(use.of('a'), 0)
  use.add('a', 1)
  t.equal(Math.round(use.of('a')), 1)
  t.equal(use.least(['a', 'b']), 'b')
})

t.test('work keeps the abort signal of its client across an await', async (t) => {
  const { scheduleWork, awaitScheduled, continueAs, currentWorkSignal } = createLoopScheduler()
  const gone = new AbortController()
  let made = 0
  const make = () => {
    made += 1
    return gone.signal
  }
  const seen: (AbortSignal | undefined)[] = []
  await new Promise<void>((resolve) => {
    continueAs('client', make, async () => {
      await Promise.resolve()
      t.equal(made, 0, 'nothing is made before somebody asks')
      seen.push(currentWorkSignal())
      await awaitScheduled(nextIteration())
      seen.push(currentWorkSignal())
      await nextIteration()
      seen.push(currentWorkSignal())
      resolve()
    })
  })
  await new Promise<void>((resolve) => {
    scheduleWork('client', () => {
      seen.push(currentWorkSignal())
      resolve()
    })
  })
  t.strictSame(
    seen,
    [gone.signal, gone.signal, gone.signal, undefined],
    'other work of the client has its own',
  )
  t.equal(made, 1)
})

t.test('callers that awaited the same promise each continue as their own work', async (t) => {
  const { continueAs, awaitScheduled, currentWorkKey, currentWorkSignal } = createLoopScheduler()
  const shared = nextIteration()
  const seen = new Map<string, unknown>()
  const expected = new Map<string, unknown>()
  const one = (name: string) => {
    const gone = new AbortController()
    expected.set(name, { name, gone: gone.signal })
    return new Promise<void>((resolve) => {
      continueAs(
        name,
        () => gone.signal,
        async () => {
          await awaitScheduled(shared)
          for (let i = 0; i < 5; i++) await Promise.resolve()
          seen.set(name, { name: currentWorkKey(), gone: currentWorkSignal() })
          resolve()
        },
      )
    })
  }
  await Promise.all(['a', 'b', 'c'].map(one))
  t.strictSame(seen, expected)
})

t.test('sign-ins that end at the same moment keep their own accounts', async (t) => {
  const { scheduleWork, continueAs, currentWorkKey, currentWorkSignal } = createLoopScheduler()
  const signIn = nextIteration()
  const seen: { account: string | undefined; gone: AbortSignal | undefined }[] = []
  const expected: typeof seen = []
  const request = (account: string) => {
    const gone = new AbortController()
    expected.push({ account, gone: gone.signal })
    return new Promise<void>((resolve) => {
      scheduleWork('network', async () => {
        await signIn
        continueAs(
          account,
          () => gone.signal,
          async () => {
            for (let i = 0; i < 5; i++) await Promise.resolve()
            seen.push({ account: currentWorkKey(), gone: currentWorkSignal() })
            resolve()
          },
        )
      })
    })
  }
  await Promise.all(['ann', 'ann', 'network', 'network', 'bob'].map(request))
  t.equal(seen.length, expected.length)
  for (const { account, gone } of expected) {
    t.ok(seen.some((other) => other.account === account && other.gone === gone))
  }
})

t.test('work is attributed to its account, also after an await', async (t) => {
  const { scheduleWork, awaitScheduled, currentWorkKey } = createLoopScheduler()
  const seen: (string | undefined)[] = []
  t.equal(currentWorkKey(), undefined)
  await new Promise<void>((resolve) => {
    scheduleWork('client', async () => {
      seen.push(currentWorkKey())
      await Promise.resolve()
      seen.push(currentWorkKey())
      await nextIteration()
      seen.push(currentWorkKey())
      await awaitScheduled(nextIteration())
      seen.push(currentWorkKey())
      await t.rejects(awaitScheduled(nextIteration().then(() => Promise.reject(new Error('failed')))), {
        message: 'failed',
      })
      seen.push(currentWorkKey())
      resolve()
    })
  })
  t.strictSame(seen, ['client', 'client', 'client', 'client', 'client'])
  t.equal(currentWorkKey(), undefined)
})

t.test(
  'queued work runs in the asynchronous context of its caller, not in that of another client',
  async (t) => {
    const request = new AsyncLocalStorage<string>()
    const { turns, busy, rest } = steppedLoop()
    const seen: (string | undefined)[] = []
    for (const name of ['a', 'b', 'c']) {
      request.run(name, () =>
        turns.scheduleWork(name, () => {
          busy(name, 10)
          seen.push(request.getStore(), turns.currentWorkKey())
        }),
      )
    }
    await rest()
    t.same(seen, ['a', 'a', 'b', 'b', 'c', 'c'])
  },
)
