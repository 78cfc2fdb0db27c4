/** The table of results: the measured value, the ceiling from the same run, and the goal. */

export interface Row {
  work: string
  measured: string
  /** The value to compare with. Empty when the goal is an absolute number. */
  ceiling: string
  ratio: number | undefined
  /** Empty when this row has no goal. */
  goal: string
  met: boolean | undefined
}

/** Returns a row whose goal is a ratio. */
export function ratioRow(
  work: string,
  measured: string,
  ceiling: string,
  ratio: number,
  goal?: { atLeast: number } | { atMost: number },
): Row {
  if (goal === undefined) return { work, measured, ceiling, ratio, goal: '', met: undefined }
  return 'atLeast' in goal
    ? { work, measured, ceiling, ratio, goal: `>= ${goal.atLeast}`, met: ratio >= goal.atLeast }
    : { work, measured, ceiling, ratio, goal: `<= ${goal.atMost}`, met: ratio <= goal.atMost }
}

const HEADINGS = ['work', 'measured', 'ceiling', 'ratio', 'goal', '']

export function printTable(rows: readonly Row[]): void {
  const lines = rows.map(({ work, measured, ceiling, ratio, goal, met }) => [
    work,
    measured,
    ceiling,
    ratio === undefined ? '' : ratio.toFixed(2),
    goal,
    met === undefined ? '' : met ? 'ok' : 'missed',
  ])
  const table = [HEADINGS, ...lines]
  const widths = HEADINGS.map((_, i) => Math.max(...table.map((line) => line[i]?.length ?? 0)))
  const text = table.map((line) =>
    line
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  console.log(text.join('\n'))
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

/** Returns the quantile of the values; `share` is from 0 to 1. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
}

export const perSecond = (rate: number) => `${Math.round(rate).toLocaleString('en')}/s`
export const milliseconds = (ms: number) =>
  ms < 10_000 ? `${ms.toPrecision(3)} ms` : `${(ms / 1000).toFixed(1)} s`
