/**
 * The manifest of a backup: it is written last, so only a complete backup has one. The directory of a backup
 * has:
 *
 *     manifest.json   counts, the log position, and the checksum of SHA256SUMS
 *     SHA256SUMS      one line for each file below data/, in the format of `sha256sum -c`
 *     data/           the contents of the data directory
 */
import { createHash } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { checkOf } from '../checked-json.ts'
import { isMissing } from '../disk.ts'
import { OperatorError } from '../operator-error.ts'
import { sumOf } from './file-copier.ts'

export const MANIFEST = 'manifest.json'
export const SUMS = 'SHA256SUMS'
/** The file that collects checksums until all of them are known. */
export const SUMS_DRAFT = `${SUMS}.draft`
export const DATA = 'data'

/** The stores are files of SQLite: a copy of a data directory. */
export const COPY_FORMAT = 1
/** The stores are files of JSON lines, for an installation of any kind. */
export const EXPORT_FORMAT = 2

const Count = Type.Integer({ minimum: 0 })
const Manifest = Type.Object({
  /** `COPY_FORMAT` or `EXPORT_FORMAT`. A Mergelog that does not know it can't restore the backup. */
  format: Type.Integer({ minimum: 1 }),
  /** ISO 8601. */
  createdAt: Type.String(),
  /** The position of the last event in the log. All other data is as of that event. */
  position: Count,
  events: Count,
  repositories: Count,
  refs: Count,
  attachments: Count,
  files: Count,
  bytes: Count,
  /** Files that the log names but the data directory did not have. */
  missing: Type.Array(Type.String()),
  /** SHA-256 of SHA256SUMS. */
  sums: Type.String(),
})
const isSealed = checkOf(Type.Object({ ...Manifest.properties, seal: Type.String() }))

export type Manifest = Static<typeof Manifest>

/** Why a backup can't be made, or can't be restored. */
export class BackupProblem extends OperatorError {}

/** A hash over all other fields of the manifest, which shows whether the manifest itself is damaged. */
function sealOf(manifest: Manifest): string {
  const ordered = Object.keys(Manifest.properties).map((key) => [key, Reflect.get(manifest, key)])
  return createHash('sha256').update(JSON.stringify(ordered)).digest('hex')
}

/** Writes and flushes the manifest. It must be the last file of a backup. */
export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  const text = `${JSON.stringify({ ...manifest, seal: sealOf(manifest) }, undefined, 2)}\n`
  await writeFile(join(directory, MANIFEST), text, { flag: 'wx', flush: true })
}

/** Reads the manifest and checks it and the list of checksums. @throws BackupProblem */
export async function readManifest(directory: string): Promise<Manifest> {
  const path = join(directory, MANIFEST)
  const text = await readFile(path, 'utf8').catch(async (error: unknown) => {
    if (!isMissing(error)) throw error
    const isThere = await stat(directory).then(
      (found) => found.isDirectory(),
      () => false,
    )
    throw new BackupProblem(
      isThere
        ? `${directory} is not a complete backup: it has no ${MANIFEST}`
        : `${directory} is not a directory`,
    )
  })
  const damaged = new BackupProblem(`${path} is damaged`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw damaged
  }
  if (typeof value === 'object' && value !== null && 'format' in value) {
    const { format } = value
    if (typeof format === 'number' && format > EXPORT_FORMAT) {
      throw new BackupProblem(`${path} is of a later version of Mergelog (format ${format})`)
    }
  }
  if (!isSealed(value) || value.seal !== sealOf(value)) throw damaged
  const { seal: _seal, ...manifest } = value
  const sums = join(directory, SUMS)
  const actual = await sumOf(sums).catch((error: unknown) => {
    if (isMissing(error)) throw new BackupProblem(`${sums} is missing`)
    throw error
  })
  if (actual.sha256 !== manifest.sums) throw new BackupProblem(`${sums} is damaged: its SHA-256 differs`)
  return manifest
}
