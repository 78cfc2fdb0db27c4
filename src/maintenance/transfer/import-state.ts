/**
 * Progress of an import, in a file in `DATA_DIR/restoring` beside the files to move. While that directory exists, no
 * server starts, and only an import of the same export may continue.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, Type } from 'typebox'
import { checkOf } from '../../storage/checked-json.ts'
import { flush, isMissing } from '../../storage/disk.ts'
import { IMPORT_STATE, RESTORING } from '../../storage/unfinished-restore.ts'

const ImportState = Type.Object({
  /** The SHA-256 of the export's list of files. */
  export: Type.String(),
  /** Whether everything is written, and only the files are still to be moved to their places. */
  complete: Type.Boolean(),
})
const isImportState = checkOf(ImportState)

export type ImportState = Static<typeof ImportState>

/** Returns the state of an interrupted import; undefined without one. */
export async function importStateIn(dataDir: string): Promise<ImportState | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(join(dataDir, RESTORING, IMPORT_STATE), 'utf8'))
    return isImportState(value) ? value : undefined
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Resolves when the state is on disk. A crash leaves the state before it, or this one. */
export async function writeImportState(dataDir: string, state: ImportState): Promise<void> {
  const directory = join(dataDir, RESTORING)
  const draft = join(directory, `${IMPORT_STATE}.draft`)
  await writeFile(draft, JSON.stringify(state), { flush: true })
  await rename(draft, join(directory, IMPORT_STATE))
  await flush(directory)
}
