/** Files of JSON lines: written in chunks and read line by line, so that memory stays small. */
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Check } from '../../storage/checked-json.ts'
import { BackupProblem } from '../backup/manifest.ts'

const CHUNK = 1024 * 1024

export interface LineWriter {
  write(value: object): Promise<void>
  /** Writes buffered lines. Does not flush. Call it also after a failure. */
  close(): Promise<void>
}

/** Opens a file that only its owner can read. `flags`: `w` to replace it, `a` to add to it. */
export async function openLines(path: string, flags: 'w' | 'a'): Promise<LineWriter> {
  const file = await open(path, flags, 0o600)
  let lines: string[] = []
  let size = 0

  async function writeAll(): Promise<void> {
    const text = lines.join('')
    lines = []
    size = 0
    await file.writeFile(text)
  }

  return {
    async write(value) {
      const line = `${JSON.stringify(value)}\n`
      lines.push(line)
      size += line.length
      if (size >= CHUNK) await writeAll()
    },
    async close() {
      try {
        await writeAll()
      } finally {
        await file.close()
      }
    },
  }
}

/** The lines of a file with the values in them. @throws BackupProblem for a line that does not match */
export async function* valuesIn<T>(
  path: string,
  check: Check<T>,
): AsyncGenerator<{ line: string; value: T }> {
  let number = 0
  for await (const line of linesIn(path)) {
    number += 1
    const value = parsed(line)
    if (!check(value)) throw new BackupProblem(`${path}, line ${number}: ${check.problem(value)}`)
    yield { line, value }
  }
}

/** The lines of a file. */
export async function* linesIn(path: string): AsyncGenerator<string> {
  let partialLine = ''
  const chunks: AsyncIterable<string> = createReadStream(path, { encoding: 'utf8', highWaterMark: CHUNK })
  for await (const chunk of chunks) {
    const lines = `${partialLine}${chunk}`.split('\n')
    partialLine = lines.pop() ?? ''
    yield* lines
  }
  if (partialLine !== '') yield partialLine
}

/** Parses JSON. Returns undefined, which no check accepts, for other text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
