/** Text for terminals: aligned, in colours where the terminal shows them, without control characters. */
import { styleText } from 'node:util'

type Format = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

/** Formats a text if the stream is a terminal with formats and NO_COLOR is not set. */
export function styled(format: Format, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(format, text, { stream })
}

/** Returns one line without control characters: text of other users must not control the terminal. */
export function printable(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(/\p{Cc}|\p{Bidi_Control}/gu, '\ufffd')
}

/** Shortens a text to `width` characters, with an ellipsis at its end. */
export function shortened(text: string, width: number): string {
  const characters = Array.from(text.slice(0, 2 * width + 2))
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join('')}…`
}

/** Width of a line, in characters. Without a terminal: 120. */
export const lineWidth = () => process.stdout.columns ?? 120

/** Pads the cells of each column to the same width, except in the last column. */
export function aligned(rows: readonly (readonly string[])[]): string[][] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
  }
  return rows.map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))))
}

/** Writes lines at the speed of the reader. Stops when the reader closes the pipe (as `head` does). */
export async function writeLines(lines: Iterable<string> | AsyncIterable<string>): Promise<void> {
  const { stdout } = process
  // Without a listener, a closed pipe would end the process with an error.
  let isClosed = false
  const onError = (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    isClosed = true
  }
  stdout.on('error', onError)
  for await (const line of lines) {
    await new Promise<void>((resolve) => stdout.write(`${line}\n`, () => resolve()))
    if (isClosed) return
  }
  stdout.off('error', onError)
}
