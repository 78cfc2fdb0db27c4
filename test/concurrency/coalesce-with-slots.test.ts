import t from 'tap'
import { coalesceWithSlots } from '../../src/concurrency/coalesce-with-slots.ts'
import { createSemaphore, SlotsFull } from '../../src/concurrency/semaphore.ts'

const settle = () => new Promise((resolve) => setImmediate(resolve))

/** One slot, and a record of the started answers; each answer waits until the test resolves it. */
function setup(waiting = 8, waitingShare = 8) {
  const slots = createSemaphore({ name: 'long_reads', size: 1, waiting, waitingShare })
  const answer = coalesceWithSlots<string>(slots)
  const begun: { key: string; give: (answer: string) => void; fail: (error: Error) => void }[] = []
  const ended: string[] = []
  const ask = (client: string, key: string, gone?: AbortController) =>
    answer(
      key,
      client,
      (unwanted) =>
        new Promise((give, fail) => {
          begun.push({ key, give, fail })
          unwanted.addEventListener('abort', () => {
            ended.push(key)
            fail(new Error('ended'))
          })
        }),
      gone?.signal,
    )
  /** Resolves the current answer. */
  async function giveNext(answer = ''): Promise<void> {
    await settle()
    begun.at(-1)?.give(answer)
    await settle()
  }
  return { slots, ask, begun, ended, giveNext, keys: () => begun.map(({ key }) => key) }
}

t.test('callers that wait for the same answer share it, and need no other slots', async (t) => {
  const { slots, ask, giveNext, keys } = setup()
  const first = ask('a', 'other')
  await settle()
  const same = [ask('a', 'question'), ask('a', 'question'), ask('b', 'question'), ask('c', 'question')]
  await settle()
  t.same(slots.counts(), { running: 1, waiting: 3 }, 'each client waits once')
  await giveNext('one')
  t.equal(await first, 'one')
  t.same(slots.counts(), { running: 1, waiting: 0 })
  await giveNext('two')
  t.strictSame(await Promise.all(same), ['two', 'two', 'two', 'two'])
  t.strictSame(keys(), ['other', 'question'])
  t.same(slots.counts(), { running: 0, waiting: 0 })
})

t.test('an answer in progress is not shared with later callers: it may be too old', async (t) => {
  const { ask, giveNext, keys } = setup()
  const older = ask('a', 'question')
  await settle()
  const newer = ask('b', 'question')
  await giveNext('old')
  await giveNext('new')
  t.strictSame([await older, await newer], ['old', 'new'])
  t.strictSame(keys(), ['question', 'question'])
})

t.test(
  'a request of one client does not wait for all requests of another client, even for the same key',
  async (t) => {
    const { ask, giveNext, keys } = setup(100, 100)
    const many = Array.from({ length: 64 }, (_, i) => ask('many', `question ${i}`))
    const single = ask('single', 'question 63')
    for (let i = 0; i < 3; i++) await giveNext(`answer ${i}`)
    t.equal(await single, 'answer 2')
    t.strictSame(keys().slice(0, 3), ['question 0', 'question 1', 'question 63'])
    while (keys().length < 64) await giveNext()
    await giveNext()
    await Promise.all(many)
    t.equal(new Set(keys()).size, 64, 'each once')
  },
)

t.test('all callers of an answer get its error, and the next caller starts a new one', async (t) => {
  const { ask, begun, giveNext } = setup()
  const both = [ask('a', 'question'), ask('b', 'question')]
  await settle()
  begun[0]?.fail(new Error('no answer'))
  await Promise.all(both.map((one) => t.rejects(one, { message: 'no answer' })))
  const again = ask('b', 'question')
  await giveNext('found')
  t.equal(await again, 'found')
})

t.test('a caller without a place in the queue is refused, and other callers continue', async (t) => {
  const { ask, giveNext } = setup(2, 1)
  const first = ask('a', 'first')
  await settle()
  const second = ask('a', 'second')
  await t.rejects(ask('a', 'third'), SlotsFull)
  const third = ask('b', 'third')
  for (let i = 0; i < 3; i++) await giveNext('found')
  t.strictSame(await Promise.all([first, second, third]), ['found', 'found', 'found'])
})

/** A caller that waits until it is aborted. */
function somebody() {
  const gone = new AbortController()
  return { gone, leave: () => gone.abort(new Error('gone')) }
}

t.test('a client without waiting callers leaves the queue', async (t) => {
  const { slots, ask, giveNext, keys } = setup()
  const first = ask('a', 'first')
  await settle()
  const [one, two] = [somebody(), somebody()]
  const asked = [one, two].map(({ gone }) => ask('a', 'second', gone))
  one.leave()
  await t.rejects(asked[0] ?? first, { message: 'gone' })
  t.same(slots.counts(), { running: 1, waiting: 1 }, 'the other one still waits')
  two.leave()
  await t.rejects(asked[1] ?? first, { message: 'gone' })
  t.same(slots.counts(), { running: 1, waiting: 0 })
  await t.rejects(ask('b', 'second', two.gone), { message: 'gone' })
  t.same(slots.counts(), { running: 1, waiting: 0 })
  const again = ask('a', 'second')
  await giveNext('one')
  await giveNext('two')
  t.strictSame(await Promise.all([first, again]), ['one', 'two'])
  t.strictSame(keys(), ['first', 'second'], 'who asks again is answered')
})

t.test('an answer is aborted when its last caller has left, and not before', async (t) => {
  const { slots, ask, ended, giveNext, keys } = setup()
  const first = ask('a', 'first')
  await settle()
  const [one, two, three] = [somebody(), somebody(), somebody()]
  const asked = [
    ask('a', 'second', one.gone),
    ask('a', 'second', two.gone),
    ask('b', 'second', three.gone),
    ask('c', 'third'),
  ]
  await giveNext('one')
  await first
  t.strictSame(keys(), ['first', 'second'])
  const left = asked.slice(0, 3).map((each) => t.rejects(each, { message: 'gone' }))
  for (const { leave } of [one, two]) leave()
  await settle()
  t.strictSame(ended, [], 'in whose turn it was begun does not matter')
  three.leave()
  await Promise.all(left)
  t.strictSame(ended, ['second'])
  await giveNext('three')
  t.equal(await asked[3], 'three', 'its slot is free again')
  t.same(slots.counts(), { running: 0, waiting: 0 })
})

t.test('a remaining caller gets the answer after other callers have left', async (t) => {
  const { ask, ended, giveNext } = setup()
  const first = ask('a', 'first')
  await settle()
  const one = somebody()
  const left = ask('b', 'second', one.gone)
  const stays = [ask('b', 'second'), ask('c', 'second')]
  one.leave()
  await t.rejects(left, { message: 'gone' })
  await giveNext('one')
  await first
  await giveNext('two')
  t.strictSame(await Promise.all(stays), ['two', 'two'])
  t.strictSame(ended, [])
})
