/** The pauses of a worker, from which it is woken when there is something to do. */

export interface Pauses {
  /** Waits until `wake` is called or the signal is aborted, at most this long. One at a time. */
  pause(ms: number): Promise<void>
  /** Ends the pause. Without one it does nothing. */
  wake(): void
}

/** A pause does not keep the process alive. */
export function createPauses(signal: AbortSignal): Pauses {
  let end: () => void = () => {}
  return {
    pause: (ms) =>
      new Promise((resolve) => {
        const over = () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', over)
          end = () => {}
          resolve()
        }
        const timer = setTimeout(over, Math.max(0, ms))
        timer.unref()
        end = over
        signal.addEventListener('abort', over, { once: true })
        if (signal.aborted) over()
      }),
    wake: () => end(),
  }
}
