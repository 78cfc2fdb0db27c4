/**
 * Signals that end before the one that they depend on. `AbortSignal.any` leaves a mark at each of its signals for as long as
 * that one lives: at one that lives as long as the server, as many marks as there were calls.
 */

export interface ReleasableSignal {
  signal: AbortSignal
  abort(reason?: unknown): void
  /** The longer signal does not abort it any more, and knows nothing of it. To be called when the work is done. */
  release(): void
}

/** A signal that is aborted with `longer`, until it is released. */
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
