/** What the steps of a backup share. */
import type { FileCopier } from './file-copier.ts'
import type { Draft } from './sums.ts'

/** How far it has come. */
export interface Progress {
  /** What is being done, in words. */
  step: string
  done: number
  /** 0 when it can't be known. */
  total: number
}

export interface Work {
  dataDir: string
  /** Below which the copy is. */
  data: string
  draft: Draft
  copy: FileCopier
  onProgress: (progress: Progress) => void
  /** Refs of repositories that were found to be whole with them. */
  checked: Map<number, string>
}
