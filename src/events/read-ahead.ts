/**
 * Follows the log ahead of a reader that takes long for a batch. What comes meanwhile is one batch when the reader asks
 * for more: large batches cost much less than many small ones.
 */
import type { EventStore, Position, RecordedEvent, SubscribeOptions } from './event-store.ts'

/**
 * Yields what `subscribe` does, with the same options, errors and calls of `passed`. About two batches wait in memory
 * for a slow reader. `weightOf`: as how many events one counts in a batch, and among those that wait. What waits is not yielded any more once the
 * signal is aborted.
 */
export async function* readAhead(
  { subscribe }: Pick<EventStore, 'subscribe'>,
  options: SubscribeOptions & { batchSize: number; weightOf?: (event: RecordedEvent) => number },
): AsyncGenerator<RecordedEvent[], void> {
  const { batchSize, weightOf = () => 1 } = options
  const leaving = new AbortController()
  const signal = AbortSignal.any([options.signal, leaving.signal])
  const ahead: RecordedEvent[] = []
  /** Of all that waits. */
  let weight = 0
  /** What is passed when all that waits was taken. */
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
      weight += totalOf(batch, weightOf)
      moreCame()
      if (weight < batchSize || signal.aborted) continue
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
        const batch = ahead.splice(0, lengthOf(ahead, batchSize, weightOf))
        weight -= totalOf(batch, weightOf)
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

export const totalOf = (events: readonly RecordedEvent[], weightOf: (event: RecordedEvent) => number) =>
  events.reduce((total, event) => total + weightOf(event), 0)

/** How many events are one batch. A single one may weigh more. */
function lengthOf(
  events: readonly RecordedEvent[],
  batchSize: number,
  weightOf: (event: RecordedEvent) => number,
): number {
  let weight = 0
  const end = events.findIndex((event) => {
    weight += weightOf(event)
    return weight > batchSize
  })
  return end === -1 ? events.length : Math.max(1, end)
}
