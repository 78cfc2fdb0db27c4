/** The progress of a verification. */

export interface VerifyProgress {
  /** `log` counts positions of the log; `views` counts documents. */
  phase: 'log' | 'views'
  done: number
  total: number
}

const INTERVAL_MS = 100

/** Reports at most every 100 ms, and always at the end of the phase. */
export function progressOf(
  phase: VerifyProgress['phase'],
  total: number,
  onProgress: (progress: VerifyProgress) => void,
): (done: number, isEnd: boolean) => void {
  let reported = Number.NEGATIVE_INFINITY
  return (done, isEnd) => {
    const now = performance.now()
    if (!isEnd && now - reported < INTERVAL_MS) return
    reported = now
    onProgress({ phase, done, total })
  }
}
