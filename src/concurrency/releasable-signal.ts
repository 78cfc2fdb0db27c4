/**
 * Abort signals that follow a longer-lived signal until they are released. `AbortSignal.any` keeps a reference at each of
 * its signals for their lifetime: a signal that lives as long as the server would collect one for each call.
 */

export interface ReleasableSignal {
  signal: AbortSignal
  abort(reason?: unknown): void
  /** Detaches from the longer signal. Call it when the work is done. */
  release(): void
}

/** Creates a signal that aborts with `longer` until it is released. */
export function releasableSignal(longer: AbortSignal): ReleasableSignal {
  const controller = new AbortController()
  const abort = () => controller.abort(longer.reason)
  if (longer.aborted) abort()
  else longer.addEventListener('abort', abort, { once: true })
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    release: () => longer.removeEventListener('abort', abort),
  }
}
