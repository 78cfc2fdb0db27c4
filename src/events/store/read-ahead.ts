/**
 * Follows the log ahead of a slow reader, and merges the waiting events into one batch: large batches cost much less
 * than many small ones.
 */
import type { EventStore, Position, RecordedEvent, SubscribeOptions } from './event-store.ts'

/**
 * Yields as `subscribe` does, with the same options, errors and calls of `passed`. Buffers about two batches for a slow
 * reader. `weightOf` returns an event's weight in a batch and in the buffer. After an abort, buffered events are not
 * yielded.
 */
export async function* readAhead(
  { subscribe }: Pick<EventStore, 'subscribe'>,
  options: SubscribeOptions & { batchSize: number; weightOf?: (event: RecordedEvent) => number },
): AsyncGenerator<RecordedEvent[], void> {
  const { batchSize, weightOf = () => 1 } = options
  const leaving = new AbortController()
  const signal = AbortSignal.any([options.signal, leaving.signal])
  const ahead: RecordedEvent[] = []
  /** The weights of these events, cached because weighing takes time. */
  const weights: number[] = []
  /** The position to report when the buffer is empty. */
  let reached: Position | undefined
  let ended: { error?: unknown } | undefined
  let moreCame = () => {}
  let someTaken = () => {}

  async function fill(): Promise<void> {
    const passed = (position: Position) => {
      reached = position
      moreCame()
    }
    for await (const batch of subscribe({ ...options, signal, passed })) {
      ahead.push(...batch)
      for (const event of batch) weights.push(weightOf(event))
      moreCame()
      if (sum(weights) < batchSize || signal.aborted) continue
      await new Promise<void>((resolve) => {
        someTaken = resolve
      })
    }
  }

  function end(how: { error?: unknown }): void {
    ended = how
    moreCame()
  }

  fill().then(
    () => end({}),
    (error: unknown) => end({ error }),
  )
  try {
    while (!signal.aborted) {
      if (ahead.length > 0) {
        const length = lengthOf(weights, batchSize)
        const batch = ahead.splice(0, length)
        weights.splice(0, length)
        someTaken()
        yield batch
      } else if (reached !== undefined) {
        const position = reached
        reached = undefined
        options.passed?.(position)
      } else if (ended !== undefined) {
        if ('error' in ended) throw ended.error
        return
      } else {
        await new Promise<void>((resolve) => {
          moreCame = resolve
        })
      }
    }
  } finally {
    leaving.abort()
    someTaken()
  }
}

const sum = (weights: readonly number[]) => weights.reduce((total, weight) => total + weight, 0)

/** Returns the number of buffered events in one batch. A single event may weigh more. */
function lengthOf(weights: readonly number[], batchSize: number): number {
  let total = 0
  const end = weights.findIndex((weight) => {
    total += weight
    return total > batchSize
  })
  return end === -1 ? weights.length : Math.max(1, end)
}
