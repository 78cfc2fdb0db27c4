/** The progress bar of a long command. */
import { Presets, SingleBar } from 'cli-progress'
import type { Progress } from '../maintenance/backup/context.ts'

interface Step extends Progress {
  /** Number of events replayed so far, for a step that replays events. */
  events?: number
}

/** Runs `work` with a progress bar on standard error. Shows no bar when standard error is not a terminal. */
export async function withProgressBar<T>(work: (onProgress: (step: Step) => void) => Promise<T>): Promise<T> {
  if (!process.stderr.isTTY) return await work(() => {})
  const format = '{bar} {percentage}%  {step}  {counts}  {eta_formatted} left'
  const bar = new SingleBar(
    { format, stream: process.stderr, clearOnComplete: true, hideCursor: true, fps: 10, etaBuffer: 100 },
    Presets.shades_classic,
  )
  let current = { name: '', began: 0 }
  try {
    return await work((now) => {
      const { step, done, total } = now
      if (step !== current.name) {
        // Each step has a new bar, because the remaining time is estimated per step.
        bar.start(Math.max(total, 1), 0, { step, counts: '' })
        current = { name: step, began: performance.now() }
      }
      bar.setTotal(Math.max(total, 1))
      bar.update(done, { counts: countsOf(now, performance.now() - current.began) })
    })
  } finally {
    bar.stop()
  }
}

function countsOf({ done, total, events }: Step, milliseconds: number): string {
  if (events === undefined) return total === 0 ? '' : `${done}/${total}`
  const perSecond = Math.round((events * 1000) / Math.max(milliseconds, 1))
  return `${events.toLocaleString('en')} events, ${perSecond.toLocaleString('en')}/s`
}
