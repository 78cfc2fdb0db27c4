import t from 'tap'
import { createFairSlots } from '../src/fair-slots.ts'

/** Lets everything that can run now run. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

t.test('no key holds more than its share, and the others go on', async (t) => {
  const slots = createFairSlots({ name: 'git_reads', size: 4, share: 2 })
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
  const slots = createFairSlots({ name: 'git_reads', size: 3, share: 3 })
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
  // At the second, a held none any more, and had come before d.
  t.same(order, ['c1', 'a3', 'b2', 'd1'])
})

t.test('with one slot the keys take turns: one who waits is not behind all of another', async (t) => {
  const slots = createFairSlots({ name: 'git_reads', size: 1, waiting: 16, waitingShare: 8 })
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
})

t.test(
  'too many who wait are refused: 429 when they are of one client, 503 when they are of all',
  async (t) => {
    const slots = createFairSlots({ name: 'git_reads', size: 1, waiting: 3, waitingShare: 2 })
    const release = await slots.take('a')
    const gone = new AbortController()
    const waiting = [slots.take('a', gone.signal), slots.take('a', gone.signal)]
    await t.rejects(slots.take('a'), { name: 'SlotsFull', refusal: { refused: 'tooManyRequests' } })
    waiting.push(slots.take('b', gone.signal))
    await t.rejects(slots.take('c'), { name: 'SlotsFull', refusal: { refused: 'unavailable' } })
    gone.abort(new Error('gone'))
    for (const result of await Promise.allSettled(waiting)) t.match(result, { reason: { message: 'gone' } })
    t.same(slots.counts(), { running: 1, waiting: 0 }, 'who gives up leaves the queue')
    const next = slots.take('c')
    release()
    ;(await next)()
    const nobody = createFairSlots({ name: 'git_reads', size: 1, waiting: 0 })
    await nobody.take('a')
    await t.rejects(nobody.take('b'), { name: 'SlotsFull', refusal: { refused: 'unavailable' } })
    await t.rejects(nobody.take('a'), { name: 'SlotsFull', refusal: { refused: 'tooManyRequests' } })
  },
)

t.test('whatever comes and goes, shares and sizes hold, and nobody who may run waits', async (t) => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed % below
  }
  const slots = createFairSlots({ name: 'git_reads', size: 5, share: 2, waiting: 1000, waitingShare: 1000 })
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
