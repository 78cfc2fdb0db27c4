/** Streams git's output to a client, with separate time limits for git and for the client. */
import { deadlineAfter } from '../../concurrency/deadline.ts'
import { limitReached } from '../../errors/limits.ts'
import { timeFor } from '../http/request-body.ts'
import { GitClientGone, GitTooSlow } from './errors.ts'
import type { TransferShare } from './limits.ts'

/**
 * Yields the same chunks. git's clock runs while the server waits for git, the client's while the client does not read: so
 * a slow client does not use up git's time. `late` must end git.
 * @throws GitTooSlow when git's time is over, GitClientGone when the client's is
 */
export async function* meteredOutput(
  output: AsyncIterable<Buffer>,
  { workMs, pace }: Pick<TransferShare, 'workMs' | 'pace'>,
  late: (reason: GitTooSlow | GitClientGone) => void,
): AsyncGenerator<Buffer> {
  let reason: GitTooSlow | GitClientGone | undefined
  let worked = 0
  let waited = 0
  let size = 0
  const chunks = output[Symbol.asyncIterator]()

  /**
   * Starts a clock that calls `late` after `left` milliseconds. Returns a function that stops it and returns the elapsed
   * time.
   */
  function clock(left: number, limit: 'git_time' | 'git_client_rate', why: () => GitTooSlow | GitClientGone) {
    const start = performance.now()
    const stop = deadlineAfter(left, () => {
      reason = why()
      limitReached(limit)
      late(reason)
    })
    return () => {
      stop()
      return performance.now() - start
    }
  }

  try {
    for (;;) {
      const stopWork = clock(
        workMs - worked,
        'git_time',
        () => new GitTooSlow(`git took more than ${workMs} ms`),
      )
      const next = await chunks.next().finally(() => {
        worked += stopWork()
      })
      if (reason !== undefined) throw reason
      if (next.done) return
      size += next.value.length
      const stopWait = clock(
        timeFor(pace, size) - waited,
        'git_client_rate',
        () => new GitClientGone('the client reads too slowly'),
      )
      try {
        yield next.value
      } finally {
        waited += stopWait()
      }
      if (reason !== undefined) throw reason
    }
  } catch (error) {
    throw reason ?? error
  } finally {
    await chunks.return?.()
  }
}
