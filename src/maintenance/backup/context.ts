/** The values that the steps of a backup share. */

import type { Draft } from './checksums.ts'
import type { FileCopier } from './file-copier.ts'
import type { LogReferences } from './log-references.ts'

/** The progress of a backup or a restore. */
export interface Progress {
  /** The current step, in words. */
  step: string
  done: number
  /** 0 when it is unknown. */
  total: number
}

/** How the stores get into a backup: as database files, or as JSON lines. */
export interface StoreCopies {
  /** What the backup's manifest has as its format. */
  format: number
  /** The files below `data/` that it writes. One that it does not write is left out. */
  files: readonly string[]
  /** Copies what must not be ahead of the copied log. */
  copyBefore(context: BackupContext): Promise<void>
  /** Copies the log up to its end, as a whole or from where the last call ended. Resolves to what all of it names. */
  copyLog(context: BackupContext): Promise<LogReferences>
  /**
   * Copies the secrets of the accounts and tokens that the copied log names. Resolves to what it names and the copy lacks:
   * an edit or a deletion since has removed it.
   */
  copySecrets(context: BackupContext, named: LogReferences): Promise<string[]>
  /** Whether texts were erased after what was copied of the log: then the copied secrets may lack their keys. */
  erasedSince(context: BackupContext, named: LogReferences): Promise<boolean>
}

export interface BackupContext {
  dataDir: string
  /** The directory that becomes the data directory after a restore. */
  data: string
  draft: Draft
  copy: FileCopier
  onProgress: (progress: Progress) => void
  /** By repository id: the refs (as JSON) whose objects were all found. They need not be checked again. */
  checked: Map<number, string>
}
