/**
 * The list of a backup's files with their checksums, in the format of `sha256sum -c`: `<SHA-256>  <path>`.
 */
import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { CopiedFile } from './file-copier.ts'
import { BackupProblem, DATA, SUMS, SUMS_DRAFT } from './manifest.ts'

/** Matches the paths of a backup below `data/`. No such path leads out of that directory. */
const PATH =
  /^(?:(?:events|views|secrets)\.db|(?:log|secrets|processes)\.ndjson|attachments\/(?:log|[0-9a-f]{2}\/[0-9a-f-]{36})|git\/\d+\.git\/(?:HEAD|config|packed-refs|objects\/(?:pack|[0-9a-f]{2})\/[0-9a-z.-]+|lfs\/objects\/[0-9a-f]{2}\/[0-9a-f]{2}\/[0-9a-f]{64}))$/
const LINE = /^([0-9a-f]{64}) {2}data\/(.+)$/

/** Maximum number of lines held in memory before they are written. */
const LINES = 1000

const COPIED = '-'
const LINKED = '='

export interface Totals {
  files: number
  bytes: number
  /** Number of files that are hard links to the previous backup. */
  linkedFiles: number
  linkedBytes: number
}

/** Collects the copied files. It writes them to a file, because there may be millions. */
export type Draft = Awaited<ReturnType<typeof openDraft>>

/** Opens a draft in `directory`. The list will be written there too. */
export async function openDraft(directory: string) {
  const draft = join(directory, SUMS_DRAFT)
  const file = await open(draft, 'wx')
  let lines: string[] = []
  let last: Promise<void> = Promise.resolve()

  function write(): Promise<void> {
    const text = lines.join('')
    lines = []
    last = last.then(() => file.writeFile(text))
    return last
  }

  return {
    /** Adds a file. `path` is relative to `data/`. */
    add(path: string, { size, sha256, isLinked }: CopiedFile): void {
      lines.push(`${size} ${isLinked ? LINKED : COPIED} ${sha256}  ${DATA}/${path}\n`)
    },
    /** Writes the added files from `LINES` of them on, so that memory stays bounded. */
    async write(): Promise<void> {
      if (lines.length >= LINES) await write()
    },
    /** Writes the list of the kept files. Resolves to their numbers and sizes when the list is on disk. */
    async finish(isKept: (path: string) => boolean): Promise<Totals> {
      await write()
      await file.close()
      const list = await open(join(directory, SUMS), 'wx')
      const totals = { files: 0, bytes: 0, linkedFiles: 0, linkedBytes: 0 }
      try {
        for await (const line of linesOf(draft)) {
          const space = line.indexOf(' ')
          const kept = line.slice(space + 3)
          if (!isKept(kept.slice(kept.indexOf('/') + 1))) continue
          const size = Number(line.slice(0, space))
          totals.files += 1
          totals.bytes += size
          if (line[space + 1] === LINKED) {
            totals.linkedFiles += 1
            totals.linkedBytes += size
          }
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
      await rm(draft)
      return totals
    },
    /** Closes the draft's file. Call it also after a failure. */
    async close(): Promise<void> {
      await last.catch(() => undefined)
      await file.close()
    },
  }
}

/** The files in the list of a backup. Check the list with `readManifest` first. @throws BackupProblem */
export async function* listedFiles(directory: string): AsyncGenerator<{ path: string; sha256: string }> {
  for await (const line of linesOf(join(directory, SUMS))) {
    const [, sha256, path] = LINE.exec(line) ?? []
    if (sha256 === undefined || path === undefined || !PATH.test(path)) {
      throw new BackupProblem(
        `${join(directory, SUMS)} has a line that no backup writes: ${JSON.stringify(line)}`,
      )
    }
    yield { path, sha256 }
  }
}

function linesOf(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })
}
