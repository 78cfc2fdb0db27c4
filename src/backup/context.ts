/** The values that the steps of a backup share. */
import type { FileCopier } from './file-copier.ts'
import type { Draft } from './sums.ts'

/** The progress of a backup or a restore. */
export interface Progress {
  /** The current step, in words. */
  step: string
  done: number
  /** 0 when it is unknown. */
  total: number
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
