/** The values that the steps of a backup share. */

import type { Draft } from './checksums.ts'
import type { FileCopier } from './file-copier.ts'
import type { LogReferences } from './log-references.ts'

/** The progress of a backup or a restore. */
export interface Progress {
  /** Description of the current step. */
  step: string
  done: number
  /** 0 when unknown. */
  total: number
}

/** How the stores get into a backup: as database files, or as JSON lines. */
export interface StoreCopies {
  /** Format in the backup's manifest. */
  format: number
  /** The files below `data/` that it may write. */
  files: readonly string[]
  /** Copies the stores that must not be ahead of the copied log. */
  copyBefore(context: BackupContext): Promise<void>
  /** Copies the log to its end, as a whole or from the end of the last call. Resolves to all its references. */
  copyLog(context: BackupContext): Promise<LogReferences>
  /**
   * Copies the secrets that the copied log names. Resolves to the missing ones, which a later edit or deletion has
   * removed.
   */
  copySecrets(context: BackupContext, named: LogReferences): Promise<string[]>
  /** Whether texts were erased after the copied part of the log: then the copied secrets may lack their keys. */
  erasedSince(context: BackupContext, named: LogReferences): Promise<boolean>
}

export interface BackupContext {
  dataDir: string
  /** The directory that becomes the data directory after a restore. */
  data: string
  draft: Draft
  copy: FileCopier
  onProgress: (progress: Progress) => void
  /** By repository id: the refs (as JSON) whose objects were found, and need no further check. */
  checked: Map<number, string>
}
