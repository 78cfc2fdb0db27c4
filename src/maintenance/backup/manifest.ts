/**
 * The manifest of a backup: it is written last, so only a complete backup has one. The directory of a backup
 * has:
 *
 *     manifest.json   counts, the log position, and the checksum of SHA256SUMS
 *     SHA256SUMS      one line for each file below data/, in the format of `sha256sum -c`
 *     data/           the contents of the data directory
 */
import { hash } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { OperatorError } from '../../errors/operator-error.ts'
import { checkOf } from '../../storage/checked-json.ts'
import { requireKnownFormat } from '../../storage/data-format.ts'
import { isMissing } from '../../storage/disk.ts'
import { sumOf } from './file-copier.ts'

export const MANIFEST = 'manifest.json'
export const SUMS = 'SHA256SUMS'
/** The file that collects checksums until the list is complete. */
export const SUMS_DRAFT = `${SUMS}.draft`
/** The database with the checksums of the previous backup, during a backup. */
export const EARLIER_SUMS = `${SUMS}.earlier`
export const DATA = 'data'

/** The stores are files of SQLite: a copy of a data directory. */
export const COPY_FORMAT = 1
/** The stores are files of JSON lines, for an installation of any kind. */
export const EXPORT_FORMAT = 2

const Count = Type.Integer({ minimum: 0 })

/** Comparison with the previous backup: see `series.ts`. */
const SeriesPart = Type.Object({
  /** Files that are hard links to those of the previous backup, and their bytes. */
  linkedFiles: Count,
  linkedBytes: Count,
  /** The first hex digit of the SHA-256 of the linked files that were read again. */
  reread: Type.Integer({ minimum: 0, maximum: 15 }),
})

const Manifest = Type.Object({
  /** `COPY_FORMAT` or `EXPORT_FORMAT`. Versions of Mergelog refuse unknown formats. */
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
  /** The version of Mergelog that created the backup. */
  program: Type.String(),
  /** The format of the data directory: see `data-format.ts`. */
  dataFormat: Type.Integer({ minimum: 1 }),
  /** Only for a backup of a series. */
  series: Type.Optional(SeriesPart),
})
const isSealed = checkOf(Type.Object({ ...Manifest.properties, seal: Type.String() }))

export type Manifest = Static<typeof Manifest>

/** The reason why a backup can't be created or restored. */
export class BackupProblem extends OperatorError {}

/**
 * Returns a hash over all other fields of the manifest in their order, also unknown ones of a later version. It detects
 * damage of the manifest.
 */
function sealOf(manifest: object): string {
  const others = Object.entries(manifest).filter(([key]) => key !== 'seal')
  return hash('sha256', JSON.stringify(others), 'hex')
}

/** Writes and flushes the manifest. It must be the last file of a backup. */
export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  const text = `${JSON.stringify({ ...manifest, seal: sealOf(manifest) }, undefined, 2)}\n`
  await writeFile(join(directory, MANIFEST), text, { flag: 'wx', flush: true })
}

/** Reads the manifest and checks it and the list of checksums. @throws BackupProblem, NewerData */
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
      throw new BackupProblem(`${path} was written by a later version of Mergelog (format ${format})`)
    }
  }
  if (!isSealed(value) || value.seal !== sealOf(value)) throw damaged
  const { seal: _seal, ...manifest } = value
  requireKnownFormat(path, { format: manifest.dataFormat, version: manifest.program })
  const sums = join(directory, SUMS)
  const actual = await sumOf(sums).catch((error: unknown) => {
    if (isMissing(error)) throw new BackupProblem(`${sums} is missing`)
    throw error
  })
  if (actual.sha256 !== manifest.sums) throw new BackupProblem(`${sums} is damaged: its SHA-256 differs`)
  return manifest
}
