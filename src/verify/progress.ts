/** How far a verification is. */

export interface VerifyProgress {
  /** `log` counts positions of the log; `views` counts documents. */
  phase: 'log' | 'views'
  done: number
  total: number
  /** The average rate since the phase began. */
  perSecond: number
}

const REPORTS_MS = 100

/** Reports at most every 100 ms, and always at the end of the phase. */
export function progressOf(
  phase: VerifyProgress['phase'],
  total: number,
  onProgress: (progress: VerifyProgress) => void,
): (done: number, isEnd: boolean) => void {
  const began = performance.now()
  let reported = Number.NEGATIVE_INFINITY
  return (done, isEnd) => {
    const now = performance.now()
    if (!isEnd && now - reported < REPORTS_MS) return
    reported = now
    const seconds = (now - began) / 1000
    onProgress({ phase, done, total, perSecond: seconds === 0 ? 0 : Math.round(done / seconds) })
  }
}
