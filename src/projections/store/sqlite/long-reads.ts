/**
 * Runs long reads of the embedded store outside of the event loop, two at a time and one per client. A read ends at a
 * time limit, or when all its callers have disconnected.
 */
import { LRUCache } from 'lru-cache'
import { coalesceWithSlots } from '../../../concurrency/coalesce-with-slots.ts'
import { awaitScheduled, currentWorkKey, currentWorkSignal } from '../../../concurrency/event-loop.ts'
import { createSemaphore } from '../../../concurrency/semaphore.ts'
import { limitReached } from '../../../errors/limits.ts'
import { ErrorWithRefusal, refuse } from '../../../errors/refusal.ts'
import { StoreUnavailable } from '../../../events/store/event-store.ts'
import { openSqliteReader, type SqliteReader } from '../../../storage/sqlite/reader.ts'
import type { Bindable } from './conditions.ts'

export interface LongReadOptions {
  /** Time limit of a read, in milliseconds; default none. */
  deadlineMs?: number
  /** How long a thread that reads nothing is kept, in milliseconds. Default: until the store is closed. */
  idleMs?: number
  /** Opens a connection. Tests may delay its reads. */
  open?: (file: string) => SqliteReader
}

export interface LongReads {
  /**
   * Returns the value in the only row and column of a SELECT, which must contain `ABORT_CHECK` to end early.
   * @throws ReadTooSlow, also when the same read took too long a moment ago; SlotsFull when too many wait; the reason
   * of `currentWorkSignal()` when it is aborted before
   */
  read<Value>(sql: string, values: readonly Bindable[]): Promise<Value | undefined>
  /** Ends all reads. */
  close(): Promise<void>
}

class ReadTooSlow extends ErrorWithRefusal {
  readonly refusal = refuse.unprocessable('the query took too long; narrow it')
}

const CLOSED = 'the read models are closed'
const CONNECTIONS = 2
const MAX_WAITING = 1024
/** Scheduling key of the server's own reads. */
const OWN = 'server'
/** Time during which a read that timed out is not retried, in milliseconds. */
const FAILURE_TTL_MS = 60_000
const MAX_FAILURE_CHARACTERS = 4 * 1024 * 1024

export function createLongReads(
  file: string,
  { deadlineMs, idleMs, open = openSqliteReader }: LongReadOptions,
): LongReads {
  const slots = createSemaphore({ name: 'long_reads', size: CONNECTIONS, waiting: MAX_WAITING })
  const ask = coalesceWithSlots<unknown>(slots)
  const failures = new LRUCache<string, Error>({
    maxSize: MAX_FAILURE_CHARACTERS,
    sizeCalculation: (_, key) => key.length,
    ttl: FAILURE_TTL_MS,
  })
  /** Unused connections. */
  const idle: SqliteReader[] = []
  const running = new Map<AbortController, Promise<unknown>>()
  let idleTimer: NodeJS.Timeout | undefined
  let closed = false

  async function inThread(sql: string, values: readonly Bindable[], signal: AbortSignal): Promise<unknown> {
    const reader = idle.pop() ?? open(file)
    try {
      return await reader.value(sql, values, signal)
    } finally {
      idle.push(reader)
      if (idleMs !== undefined) endWhenIdle()
    }
  }

  function endWhenIdle(): void {
    clearTimeout(idleTimer)
    const end = () => {
      for (const reader of idle.splice(0)) void reader.close()
    }
    idleTimer = setTimeout(end, idleMs).unref()
  }

  async function inTime(
    key: string,
    sql: string,
    values: readonly Bindable[],
    unwanted: AbortSignal,
  ): Promise<unknown> {
    if (closed) throw new StoreUnavailable(CLOSED)
    unwanted.throwIfAborted()
    const end = new AbortController()
    const tooSlow = () => {
      limitReached('long_read_time')
      const error = new ReadTooSlow(`a read took longer than ${deadlineMs} ms: ${sql}`)
      failures.set(key, error)
      end.abort(error)
    }
    const deadline = deadlineMs === undefined ? undefined : setTimeout(tooSlow, deadlineMs)
    unwanted.addEventListener('abort', () => {
      // An aborted read must not be cached as slow.
      clearTimeout(deadline)
      end.abort(unwanted.reason)
    })
    const read = inThread(sql, values, end.signal)
    running.set(end, read)
    try {
      return await read
    } finally {
      clearTimeout(deadline)
      running.delete(end)
    }
  }

  return {
    async read<Value>(sql: string, values: readonly Bindable[]) {
      const key = JSON.stringify([sql, values])
      const known = failures.get(key)
      if (known !== undefined) throw known
      const answer = ask(
        key,
        currentWorkKey() ?? OWN,
        (unwanted) => inTime(key, sql, values, unwanted),
        currentWorkSignal(),
      )
      return (await awaitScheduled(answer)) as Value | undefined
    },
    async close() {
      closed = true
      clearTimeout(idleTimer)
      for (const end of running.keys()) end.abort(new StoreUnavailable(CLOSED))
      await Promise.allSettled(running.values())
      await Promise.all(idle.map((reader) => reader.close()))
    },
  }
}
