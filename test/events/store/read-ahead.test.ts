/** A slow reader gets the events that arrived meanwhile as one batch. */
import t from 'tap'
import {
  type RecordedEvent,
  StoreUnavailable,
  type SubscribeOptions,
} from '../../../src/events/store/event-store.ts'
import { readAhead } from '../../../src/events/store/read-ahead.ts'
import { until } from '../../until.ts'

const eventAt = (position: number): RecordedEvent => ({
  position,
  stream: 'stream',
  revision: position,
  id: `${position}`,
  type: 'Happened',
  data: {},
  metadata: { actor: null, at: '', correlationId: '', causationId: '', schema: 1 },
})

/** A log that yields one batch after the other, as long as it is read. `then` is awaited after the last one. */
function started(
  batches: readonly (readonly number[])[],
  then: (signal: AbortSignal) => Promise<void>,
  weightOf = () => 1,
) {
  const asked = { batches: 0, over: false }
  const ending = new AbortController()
  const passed: number[] = []
  async function* subscribe({ signal, passed }: SubscribeOptions) {
    try {
      for (const batch of batches) {
        asked.batches += 1
        yield batch.map(eventAt)
        passed?.(batch.at(-1) ?? 0)
      }
      await then(signal)
    } finally {
      asked.over = true
    }
  }
  const options = {
    after: 0,
    signal: ending.signal,
    batchSize: 4,
    weightOf,
    passed: (p: number) => passed.push(p),
  }
  return { reader: readAhead({ subscribe }, options), asked, passed, end: () => ending.abort() }
}

const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve())
  })

const positionsOf = ({ value }: IteratorResult<RecordedEvent[], void>) =>
  value === undefined ? undefined : value.map(({ position }) => position)

t.test('events that arrive while the reader is busy are one batch', async (t) => {
  const { reader, asked, end } = started([[1], [2], [3], [4, 5]], untilAborted)
  t.same(positionsOf(await reader.next()), [1])
  await until('all batches have come', () => asked.batches === 4)
  t.same(positionsOf(await reader.next()), [2, 3, 4, 5])
  end()
  t.same(await reader.next(), { done: true, value: undefined })
})

t.test('at most about two batches are buffered for a slow reader', async (t) => {
  const { reader, asked, end } = started(
    Array.from({ length: 50 }, (_, i) => [3 * i + 1, 3 * i + 2, 3 * i + 3]),
    untilAborted,
  )
  t.same(positionsOf(await reader.next()), [1, 2, 3])
  await until('the log was asked as often as it is', () => asked.batches === 3)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(asked.batches, 3, 'six events wait, and the log is not asked for more')
  t.same(positionsOf(await reader.next()), [4, 5, 6, 7])
  end()
  await reader.next()
  await until('the subscription has ended', () => asked.over)
})

t.test('the buffer of a slow reader is limited by weight', async (t) => {
  const { reader, asked, end } = started(
    Array.from({ length: 50 }, (_, i) => [i + 1]),
    untilAborted,
    () => 4,
  )
  t.same(positionsOf(await reader.next()), [1])
  await until('the log was asked as often as it is', () => asked.batches === 2)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(asked.batches, 2, 'one event waits, and the log is not asked for more')
  t.same(positionsOf(await reader.next()), [2])
  end()
  await reader.next()
  await until('the subscription has ended', () => asked.over)
})

t.test('a position is passed when all earlier events were taken', async (t) => {
  const { reader, asked, passed, end } = started([[1], [2], [3]], untilAborted)
  await reader.next()
  await until('all batches have come', () => asked.batches === 3)
  t.same(passed, [], 'the reader may still write the first')
  t.same(positionsOf(await reader.next()), [2, 3])
  t.same(passed, [], 'the first was not the last that had come')
  const waiting = reader.next()
  await until('it is passed', () => passed.length > 0)
  t.same(passed, [3])
  end()
  await waiting
})

t.test('an error of the log comes after the events before it', async (t) => {
  const { reader, asked } = started([[1], [2]], () => Promise.reject(new StoreUnavailable('gone')))
  t.same(positionsOf(await reader.next()), [1])
  await until('the log has failed', () => asked.over)
  t.same(positionsOf(await reader.next()), [2])
  await t.rejects(reader.next(), new StoreUnavailable('gone'))
})

t.test('a reader that stops ends the subscription, even one that waits for it', async (t) => {
  for (const batches of [[[1]], [[1], [2, 3, 4, 5], [6]]]) {
    const { reader, asked } = started(batches, untilAborted)
    await reader.next()
    await reader.return()
    await until('the subscription has ended', () => asked.over)
    t.same(await reader.next(), { done: true, value: undefined })
  }
})

t.test('buffered events are not yielded after an abort', async (t) => {
  const { reader, asked, passed, end } = started([[1], [2]], untilAborted)
  await reader.next()
  await until('all batches have come', () => asked.batches === 2)
  end()
  t.same(await reader.next(), { done: true, value: undefined })
  t.same(passed, [])
  await until('the subscription has ended', () => asked.over)
})
