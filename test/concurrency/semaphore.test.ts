import t from 'tap'
import { createSemaphore } from '../../src/concurrency/semaphore.ts'

/** Runs everything that can run now. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

t.test('no key holds more than its share, and other keys are not blocked', async (t) => {
  const slots = createSemaphore({ name: 'git_reads', size: 4, share: 2 })
  const greedy = [await slots.take('a'), await slots.take('a')]
  let third = false
  const waiting = slots.take('a').then((release) => {
    third = true
    return release
  })
  const other = await slots.take('b')
  await settle()
  t.notOk(third, 'a slot is free, but not for this key')
  t.same(slots.counts(), { running: 3, waiting: 1 })
  greedy[0]?.()
  greedy[0]?.()
  const release = await waiting
  t.same(slots.counts(), { running: 3, waiting: 0 }, 'a second release does nothing')
  for (const done of [greedy[1], other, release]) done?.()
  t.same(slots.counts(), { running: 0, waiting: 0 })
})

t.test('a free slot goes to the key that holds the fewest, then to the first in line', async (t) => {
  const slots = createSemaphore({ name: 'git_reads', size: 3, share: 3 })
  const held = [await slots.take('a'), await slots.take('a'), await slots.take('b')]
  const order: string[] = []
  const wait = (key: string, name: string) =>
    slots.take(key).then((release) => {
      order.push(name)
      held.push(release)
    })
  const all = [wait('a', 'a3'), wait('b', 'b2'), wait('c', 'c1'), wait('d', 'd1')]
  for (let i = 0; i < 4; i++) {
    held.shift()?.()
    await settle()
  }
  await Promise.all(all)
  // At the second, a held no slot any more, and had come before d.
  t.same(order, ['c1', 'a3', 'b2', 'd1'])
})

t.test(
  'with one slot the keys alternate: a caller does not wait behind the whole queue of another key',
  async (t) => {
    const slots = createSemaphore({ name: 'git_reads', size: 1, waiting: 16, waitingShare: 8 })
    const first = await slots.take('many')
    const order: string[] = []
    const all = ['many', 'many', 'many', 'more', 'more', 'single'].map(async (key) => {
      const release = await slots.take(key)
      order.push(key)
      release()
    })
    first()
    await Promise.all(all)
    t.same(order, ['many', 'more', 'single', 'many', 'more', 'many'])
  },
)

t.test(
  'callers beyond the queue are refused: 429 when one client fills it, 503 when all together do',
  async (t) => {
    const slots = createSemaphore({ name: 'git_reads', size: 1, waiting: 2, waitingShare: 1 })
    const release = await slots.take('a')
    const gone = new AbortController()
    const waiting = [slots.take('a', gone.signal)]
    await t.rejects(slots.take('a'), { name: 'SlotsFull', refusal: { refused: 'tooManyRequests' } })
    waiting.push(slots.take('b', gone.signal))
    await t.rejects(slots.take('c'), { name: 'SlotsFull', refusal: { refused: 'unavailable' } })
    gone.abort(new Error('gone'))
    for (const result of await Promise.allSettled(waiting)) t.match(result, { reason: { message: 'gone' } })
    t.same(slots.counts(), { running: 1, waiting: 0 }, 'who gives up leaves the queue')
    const next = slots.take('c')
    release()
    ;(await next)()
    const nobody = createSemaphore({ name: 'git_reads', size: 1, waiting: 0 })
    await nobody.take('a')
    await t.rejects(nobody.take('b'), { name: 'SlotsFull', refusal: { refused: 'unavailable' } })
    await t.rejects(nobody.take('a'), { name: 'SlotsFull', refusal: { refused: 'tooManyRequests' } })
  },
)

t.test('random load: shares and sizes hold, and no caller waits while a slot is free', async (t) => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed % below
  }
  const slots = createSemaphore({ name: 'git_reads', size: 5, share: 2, waiting: 1000, waitingShare: 1000 })
  const running = new Map<string, (() => void)[]>()
  let open = 0
  for (let i = 0; i < 500; i++) {
    const key = `${random(6)}`
    if (random(2) === 0) {
      open += 1
      void slots.take(key).then((release) => running.set(key, [...(running.get(key) ?? []), release]))
    } else {
      const release = running.get(key)?.shift()
      if (release !== undefined) open -= 1
      release?.()
    }
    await settle()
    const held = [...running.values()].map((releases) => releases.length)
    const sum = held.reduce((all, one) => all + one, 0)
    const { running: counted, waiting } = slots.counts()
    if (held.some((one) => one > 2) || sum > 5 || counted !== sum || waiting !== open - sum) {
      t.fail(`after ${i} steps: ${held} run, ${counted} are counted, ${waiting} wait`)
    }
  }
  t.ok(open > 0)
})

t.test('a full queue is shared evenly: the last caller of the longest queue is evicted', async (t) => {
  const slots = createSemaphore({ name: 'git_reads', size: 1, waiting: 6, waitingShare: 6 })
  const first = await slots.take('running')
  const ended: string[] = []
  const wait = (key: string, name: string, signal?: AbortSignal) =>
    slots.take(key, signal).then(
      (release) => {
        ended.push(`${name} runs`)
        release()
      },
      ({ refusal }) => void ended.push(`${name} ${refusal?.refused}`),
    )
  const gone = new AbortController()
  const all = ['a1', 'a2', 'a3', 'a4'].map((name) => wait('a', name))
  all.push(wait('b', 'b1'), wait('b', 'b2', gone.signal))
  all.push(wait('c', 'c1'))
  await settle()
  t.strictSame(ended.splice(0), ['a4 tooManyRequests'], 'of six, nobody needs four')
  all.push(wait('c', 'c2'))
  await settle()
  t.strictSame(ended.splice(0), ['a3 tooManyRequests'], 'two each')
  all.push(wait('c', 'c3'), wait('a', 'a5'))
  await settle()
  t.strictSame(ended.splice(0).sort(), ['a5 tooManyRequests', 'c3 tooManyRequests'], 'none may have more')
  gone.abort(new Error('gone'))
  all.push(wait('a', 'a6'), wait('d', 'd1'))
  await settle()
  t.strictSame(ended.splice(0), ['b2 undefined', 'a6 tooManyRequests'], 'a place that is left can be taken')
  t.same(slots.counts(), { running: 1, waiting: 6 })
  first()
  await Promise.all(all)
  t.strictSame(ended, ['a1 runs', 'b1 runs', 'c1 runs', 'd1 runs', 'a2 runs', 'c2 runs'])
  t.same(slots.counts(), { running: 0, waiting: 0 })
})

t.test('a key never loses its only place, however many callers arrive', async (t) => {
  const slots = createSemaphore({ name: 'git_reads', size: 1, waiting: 4, waitingShare: 4 })
  const first = await slots.take('many')
  const refused: string[] = []
  const wait = (key: string) =>
    slots.take(key).then(
      (release) => release(),
      ({ refusal }) => void refused.push(`${key} ${refusal.refused}`),
    )
  const all = ['many', 'many', 'many', 'many', 'single', 'b', 'c'].map(wait)
  await settle()
  t.strictSame(refused.splice(0), ['many tooManyRequests', 'many tooManyRequests', 'many tooManyRequests'])
  all.push(...Array.from({ length: 50 }, (_, i) => wait(`new ${i}`)))
  await settle()
  t.strictSame(
    refused,
    Array.from({ length: 50 }, (_, i) => `new ${i} unavailable`),
  )
  first()
  await Promise.all(all)
})

t.test('random load: the queues equal those of a simple model', async (t) => {
  let seed = 11
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return Math.floor(seed / 65536) % below
  }
  const [places, perKey] = [12, 7]
  const slots = createSemaphore({ name: 'git_reads', size: 1, waiting: places, waitingShare: perKey })
  let release = await slots.take('running')
  const known = new Map<number, { key: string; gone: AbortController }>()
  const ended: { id: number; how: string }[] = []
  const countOf = (key: string) => [...known.values()].filter((one) => one.key === key).length
  const counts = () => ['a', 'b', 'c', 'd', 'e'].map(countOf)
  let turnsOut = 0
  for (let id = 0; id < 3000; id++) {
    const key = 'abcde'.charAt(random(5) % (1 + random(5)))
    const action = random(8)
    if (action < 5) {
      const [own, all, most] = [countOf(key), known.size, Math.max(...counts())]
      const gone = new AbortController()
      slots.take(key, gone.signal).then(
        (done) => {
          release = done
          ended.push({ id, how: 'runs' })
        },
        ({ refusal }) => void ended.push({ id, how: refusal?.refused ?? 'gone' }),
      )
      await settle()
      const out = ended.splice(0)
      const isOwn = own >= perKey || (all >= places && own > 0)
      if (own >= perKey || (all >= places && own + 1 >= most)) {
        const how = isOwn ? 'tooManyRequests' : 'unavailable'
        if (JSON.stringify(out) !== JSON.stringify([{ id, how }])) t.fail(`${key} at ${counts()}: ${how}`)
        continue
      }
      for (const one of out) {
        const victim = known.get(one.id)?.key ?? ''
        const last = [...known].findLast((other) => other[1].key === victim)?.[0]
        if (all < places || countOf(victim) !== most || one.id !== last || one.how !== 'tooManyRequests')
          t.fail(`${one.id} of ${counts()}`)
        known.delete(one.id)
        turnsOut += 1
      }
      known.set(id, { key, gone })
    } else if (action === 5) {
      const [one] = [...known].slice(random(known.size + 1))
      one?.[1].gone.abort()
      await settle()
      if (ended.splice(0).length !== (one === undefined ? 0 : 1)) t.fail('only the one that has gone leaves')
      if (one !== undefined) known.delete(one[0])
    } else if (action === 6 && known.size > 0) {
      release()
      await settle()
      const [next, ...others] = ended.splice(0)
      const [oldest] = [...known].find((one) => one[1].key === known.get(next?.id ?? -1)?.key) ?? []
      if (next?.id !== oldest || next?.how !== 'runs' || others.length > 0) t.fail(`next: ${next?.id}`)
      known.delete(next?.id ?? -1)
    }
    if (slots.counts().waiting !== known.size || known.size > places) t.fail(`of ${known.size}`)
  }
  t.ok(turnsOut > 50, `${turnsOut} made room`)
})

t.test('at most the given number run at the same time, and waiting callers run in order', async (t) => {
  const slots = createSemaphore({ size: 2, share: 2 })
  let running = 0
  let most = 0
  const order: number[] = []
  const work = async (i: number) => {
    const release = await slots.take('a')
    running += 1
    most = Math.max(most, running)
    order.push(i)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    release()
    release()
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => work(i)))
  t.equal(most, 2, 'releasing twice frees one slot')
  t.same(
    order,
    Array.from({ length: 20 }, (_, i) => i),
  )
})

t.test('a waiter that gives up leaves the queue and takes no slot', async (t) => {
  const slots = createSemaphore({ size: 1 })
  const release = await slots.take('a')
  const givingUp = new AbortController()
  const gaveUp = t.rejects(slots.take('a', givingUp.signal), { message: 'enough' })
  const second = slots.take('a')
  givingUp.abort(new Error('enough'))
  await gaveUp
  release()
  const releaseSecond = await second
  releaseSecond()
  await t.rejects(slots.take('a', AbortSignal.abort(new Error('before'))), { message: 'before' })
  const releaseThird = await slots.take('a')
  releaseThird()
})
