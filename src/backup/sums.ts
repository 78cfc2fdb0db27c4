/** The list of a backup's files: `<SHA-256>  <path>`, as `sha256sum -c` reads it. */
import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { CopiedFile } from './file-copier.ts'
import { BackupProblem, DATA, SUMS, SUMS_DRAFT } from './manifest.ts'

/** All that a backup puts below `data/`: what is read there can't lead out of it. */
const PATH =
  /^(?:(?:events|views|secrets)\.db|attachments\/(?:log|[0-9a-f]{2}\/[0-9a-f-]{36})|git\/\d+\.git\/(?:HEAD|config|packed-refs|objects\/(?:pack|[0-9a-f]{2})\/[0-9a-z.-]+))$/
const LINE = /^([0-9a-f]{64}) {2}data\/(.+)$/

/** So many lines are held before they are written. */
const LINES = 1000

/** Notes files as they are copied: in a file, since there may be millions. */
export interface Draft {
  /** `path` is below `data/`. */
  note(path: string, file: CopiedFile): void
  /** Resolves when what was noted so far need not be held any more. */
  write(): Promise<void>
  /**
   * Makes the list of the files noted that are kept. Resolves, when it is on disk, to their number and size.
   */
  finish(isKept: (path: string) => boolean): Promise<{ files: number; bytes: number }>
  /** When it comes to nothing. */
  close(): Promise<void>
}

/** A draft in `directory`, where the list will be. */
export async function openDraft(directory: string): Promise<Draft> {
  const path = join(directory, SUMS_DRAFT)
  const file = await open(path, 'wx')
  let lines: string[] = []
  let last: Promise<void> = Promise.resolve()

  function write(): Promise<void> {
    const text = lines.join('')
    lines = []
    last = last.then(() => file.writeFile(text))
    return last
  }

  return {
    note(name, { size, sha256 }) {
      lines.push(`${size} ${sha256}  ${DATA}/${name}\n`)
    },
    async write() {
      if (lines.length >= LINES) await write()
    },
    async finish(isKept) {
      await write()
      await file.close()
      const list = await open(join(directory, SUMS), 'wx')
      let files = 0
      let bytes = 0
      try {
        for await (const line of linesOf(path)) {
          const space = line.indexOf(' ')
          const kept = line.slice(space + 1)
          if (!isKept(kept.slice(kept.indexOf('/') + 1))) continue
          files += 1
          bytes += Number(line.slice(0, space))
          lines.push(`${kept}\n`)
          if (lines.length < LINES) continue
          await list.writeFile(lines.join(''))
          lines = []
        }
        await list.writeFile(lines.join(''))
        await list.sync()
      } finally {
        await list.close()
      }
      await rm(path)
      return { files, bytes }
    },
    async close() {
      await last.catch(() => undefined)
      await file.close()
    },
  }
}

/** The files of a backup whose list is whole. @throws BackupProblem */
export async function* listedFiles(directory: string): AsyncGenerator<{ path: string; sha256: string }> {
  for await (const line of linesOf(join(directory, SUMS))) {
    const [, sha256, path] = LINE.exec(line) ?? []
    if (sha256 === undefined || path === undefined || !PATH.test(path)) {
      throw new BackupProblem(`${join(directory, SUMS)} names what no backup has: ${JSON.stringify(line)}`)
    }
    yield { path, sha256 }
  }
}

function linesOf(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })
}
