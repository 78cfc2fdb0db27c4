/** Text for people: aligned, in colours where there is a terminal to show them, and harmless. */
import { styleText } from 'node:util'

type Format = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

/** In a format where the stream is a terminal that shows it (and NO_COLOR is not set), else as it is. */
export function styled(format: Format, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(format, text, { stream })
}

/** One line without control characters: what others wrote must not move the cursor, or do worse. */
export function printable(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(/\p{Cc}|\p{Bidi_Control}/gu, '\ufffd')
}

/** No longer than `width` characters; what is cut off shows as an ellipsis. */
export function shortened(text: string, width: number): string {
  const characters = Array.from(text.slice(0, 2 * width + 2))
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join('')}…`
}

/** How many characters fit on a line; where there is no terminal, what people still read. */
export const lineWidth = () => process.stdout.columns ?? 120

/** Rows of cells as lines in which the columns stand below each other; the last one is as long as it is. */
export function aligned(rows: readonly (readonly string[])[]): string[][] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
  }
  return rows.map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))))
}

/** Writes lines no faster than they are read; stops when the reader has gone (as `head` does). */
export async function writeLines(lines: Iterable<string> | AsyncIterable<string>): Promise<void> {
  const { stdout } = process
  // Without a listener the reader's going would end the process as a failure.
  let gone = false
  const onError = (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    gone = true
  }
  stdout.on('error', onError)
  for await (const line of lines) {
    await new Promise<void>((resolve) => stdout.write(`${line}\n`, () => resolve()))
    if (gone) return
  }
  stdout.off('error', onError)
}
