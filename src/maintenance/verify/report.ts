/** The result of a verification. */
import type { Position } from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'
import type { DocumentDifference } from './compare.ts'
import type { FilesReport } from './named-files.ts'

export interface VerifyReport {
  /** True when no difference was found. Read models that could not be compared don't matter. */
  sound: boolean
  log: {
    /** The number of sound events at the start of the log, and the position of the last one. */
    events: number
    soundUpTo: Position
    streams: number
    /** Number of signed checkpoints that the log agrees with. */
    checkpoints: number
    difference?: LogProblem
    /** Why the log is not the one of a checkpoint, although its hash chains are sound. */
    rewritten?: string
    /** Events of other applications in our streams, or like ours in theirs, at most 100. They are skipped. */
    others?: readonly { stream: string; revision: number }[]
    /** Number of events with recorded erasure and destroyed keys. */
    erased: number
    /** Events with unreadable texts without an erasure, at most 100. */
    lostTexts?: readonly LogProblem[]
    /**
     * Streams that the server has lost, whole or in part, or whose last event may be a damaged one of ours, at most
     * 100.
     */
    lost?: readonly LogProblem[]
  }
  views: {
    /** The number of documents that were compared and are the same. */
    documents: number
    models: ModelReport[]
    difference?: DocumentDifference
    /** Why the read models can't be compared although the log is sound: a failed fold or a damaged file. */
    failure?: string
  }
  /** Attached files and large files (git LFS), compared when the log and the read models are sound. */
  files?: FilesReport
}

export interface ModelReport {
  name: string
  /** `not compared`: this version has not built it, or an earlier read model has a difference. */
  state: 'same' | 'different' | 'not compared'
  position: Position
}
