/**
 * The format of a data directory: `docs/decisions/data-format.md`. `format.json` has its number, which is raised only when
 * an older program would corrupt the data.
 */
import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { OperatorError } from '../errors/operator-error.ts'
import { checkOf } from './checked-json.ts'
import { lockDataDir } from './data-lock.ts'
import { flush, unlessMissing } from './disk.ts'
import { VERSION } from './version.ts'

export const FORMAT_FILE = 'format.json'

const DataFormat = Type.Object({
  format: Type.Integer({ minimum: 1 }),
  /** The newest version of Mergelog that has used the directory. */
  version: Type.String(),
})
const isDataFormat = checkOf(DataFormat)

export type DataFormat = Static<typeof DataFormat>

/** The format that this program writes, and the highest that it reads. */
export const OWN_FORMAT: DataFormat = { format: 1, version: VERSION }

/** Thrown for data in a format that this program does not know. */
class NewerData extends OperatorError {}

/** Returns the format of a data directory; undefined for a new one. @throws NewerData when `format.json` is damaged */
export async function dataFormatOf(dataDir: string): Promise<DataFormat | undefined> {
  const file = join(dataDir, FORMAT_FILE)
  const text = await unlessMissing(readFile(file, 'utf8'))
  if (text === undefined) return undefined
  try {
    const value: unknown = JSON.parse(text)
    if (isDataFormat(value)) return value
  } catch {
    // Handled like a file without the fields.
  }
  throw new NewerData(
    `DATA_DIR: ${file} is damaged: restore it from a backup, or write {"format": ${OWN_FORMAT.format}, "version": "${OWN_FORMAT.version}"} into it if no newer version has used the directory`,
  )
}

/** @throws NewerData when this program is too old for the data */
export function requireKnownFormat(where: string, { format, version }: DataFormat): void {
  if (format <= OWN_FORMAT.format) return
  throw new NewerData(
    `${where} has data format ${format} of Mergelog ${version}; this is Mergelog ${VERSION}, which knows formats up to ${OWN_FORMAT.format}: start ${version} or a later version`,
  )
}

/** Checks the format and changes nothing. @throws NewerData */
export async function refuseNewerData(dataDir: string): Promise<void> {
  requireKnownFormat(`DATA_DIR: ${dataDir}`, (await dataFormatOf(dataDir)) ?? OWN_FORMAT)
}

/** Writes the format of a data directory, atomically. */
export async function writeDataFormat(dataDir: string, { format, version }: DataFormat): Promise<void> {
  // Several servers may write it at the same time.
  const draft = join(dataDir, `${FORMAT_FILE}.${process.pid}.${Math.random().toString(36).slice(2)}`)
  const file = await open(draft, 'wx')
  try {
    await file.writeFile(`${JSON.stringify({ format, version })}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, join(dataDir, FORMAT_FILE))
  await flush(dataDir)
}

/**
 * Locks a data directory for a server, checks its format and updates it.
 * @param check runs under the lock, before anything is written; its error is thrown
 * @returns `unlock`, and a log message when another version used the directory before
 * @throws NewerData, DataDirInUse, DataDirUnusable
 */
export async function openDataDir(
  dataDir: string,
  hold: 'alone' | 'shared',
  check: () => Promise<void>,
): Promise<{ unlock: () => void; news: string | undefined }> {
  const unlock = lockDataDir(dataDir, hold, 'stop it, or set DATA_DIR to another directory')
  try {
    await check()
    await refuseNewerData(dataDir)
    const before = await dataFormatOf(dataDir)
    if (before === undefined || isOlder(before.version, VERSION)) await writeDataFormat(dataDir, OWN_FORMAT)
    return { unlock, news: newsOf(before?.version ?? VERSION) }
  } catch (error) {
    unlock()
    throw error
  }
}

function newsOf(before: string): string | undefined {
  if (isOlder(before, VERSION))
    return `the data directory was last used by Mergelog ${before}; Mergelog ${VERSION} uses it from now on`
  if (isOlder(VERSION, before))
    return `the data directory was used by the newer Mergelog ${before}; Mergelog ${VERSION} supports its data format and uses it from now on`
  return undefined
}

/** Compares versions: `0.9.0` is older than `0.10.0`. Suffixes are ignored. */
function isOlder(one: string, other: string): boolean {
  const numbers = (version: string) => version.split('-')[0]?.split('.').map(Number) ?? []
  const [left, right] = [numbers(one), numbers(other)]
  const at = right.findIndex((number, i) => number !== (left[i] ?? 0))
  return at >= 0 && (left[at] ?? 0) < (right[at] ?? 0)
}
