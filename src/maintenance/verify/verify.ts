/**
 * Verifies a server's data: recomputes every hash chain of the log, replays every read model and compares it
 * with the stored documents. Only reads, and may run while a server writes.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { noTextKeys, type TextKeys } from '../../events/sealing/text-keys.ts'
import { type EventStore, LOG_START, type Position } from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'
import type { ReadModel } from '../../projections/projector/read-model.ts'
import type { ReadSnapshot, ReadStore } from '../../projections/store/read-store.ts'
import { openSqliteReadStore } from '../../projections/store/sqlite/sqlite.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import { createChains } from './chains.ts'
import { type CheckpointOptions, createCheckpointChecks } from './checkpoints.ts'
import type { DocumentDifference } from './compare.ts'
import { comparable, compareModel, documentsOf, targetsOf } from './compare-models.ts'
import type { FileChecks } from './file-checks.ts'
import { lostStreams } from './lost-streams.ts'
import { createNamedFiles, type DataFilesOptions } from './named-files.ts'
import { progressOf, type VerifyProgress } from './progress.ts'
import { createReplay, FoldFailed, LogBroken, type Replay } from './replay.ts'
import { bare, createReplayedDocuments } from './replayed-documents.ts'
import type { ModelReport, VerifyReport } from './report.ts'
import { createSealedTexts } from './sealed-texts.ts'

/** Maximum number of comparisons that are repeated because of concurrent erasures. */
const MAX_REPETITIONS = 3
/** Maximum number of streams reported as lost. */
const MAX_LOST = 100

export interface VerifyOptions {
  /** The log as it is stored. */
  events: EventStore
  /** The keys of its sealed texts. Without them, all are missing. */
  keys?: TextKeys
  /** Without it, only the log is checked. */
  readStore?: ReadStore
  models: readonly ReadModel[]
  /**
   * A directory for temporary replayed documents: those that differ from the stored ones, or all of them when
   * the read store is not SQLite.
   */
  scratchDir: string
  /** Checks of the embedded stores' files. They run while the log is read. */
  files?: FileChecks
  /** Location of the files that the log names. Without it they are not checked. */
  dataFiles?: DataFilesOptions
  /** How to compare the log with its signed checkpoints. */
  checkpoints?: CheckpointOptions
  /** Called at most every 100 ms, and at the end of each phase. */
  onProgress?: (progress: VerifyProgress) => void
  signal?: AbortSignal
}

/**
 * Checks the log, then the read models if the log is sound. The report has the first difference.
 *
 * @throws StoreUnavailable when a store can't be read; the signal's reason when it is aborted
 */
export async function verifyServer(options: VerifyOptions): Promise<VerifyReport> {
  const { scratchDir, models } = options
  const directory = await mkdtemp(join(scratchDir, 'verify-'))
  const scratch = openSqliteReadStore(join(directory, 'replayed.db'), 'OFF')
  try {
    await scratch.prepare(models.map((model) => bare(model.collection)))
    const clear = async () => {
      for (const model of models) await scratch.clear(bare(model.collection))
    }
    try {
      let report = await verifyWith(options, scratch)
      // The text was read from the stored documents just before its erasure.
      for (let i = 0; i < MAX_REPETITIONS && (await isErased(options.events, report)); i++) {
        await clear()
        report = await verifyWith(options, scratch)
      }
      return report
    } catch (error) {
      if (!(error instanceof EndsEarlier)) throw error
      // This is rare. Read the log again, but only up to the problem that the file check found.
      const { problem } = error
      await clear()
      return await verifyWith({ ...options, files: { log: async () => problem } }, scratch, problem)
    }
  } finally {
    await scratch.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** Whether the first differing read model was behind an erasure of texts. */
async function isErased(events: EventStore, { views }: VerifyReport): Promise<boolean> {
  const different = views.models.find(({ state }) => state === 'different')
  if (different === undefined) return false
  for await (const { type } of events.readAll({ from: different.position })) {
    if (type === 'TextsErased') return true
  }
  return false
}

/** Thrown when the file check found a problem in an event that the chain check considered sound. */
class EndsEarlier extends LogBroken {}

async function verifyWith(
  options: VerifyOptions,
  scratch: ReadStore,
  known?: LogProblem,
): Promise<VerifyReport> {
  const {
    events,
    keys = noTextKeys,
    readStore,
    models,
    files,
    dataFiles,
    checkpoints = {},
    onProgress = () => {},
    signal,
  } = options
  const modelReports = new Map<ReadModel, ModelReport>(
    models.map((model) => [model, { name: model.name, state: 'not compared', position: LOG_START }]),
  )
  const chains = createChains({ hasGaps: files?.log === undefined })
  const texts = createSealedTexts(events, keys)
  const named = dataFiles && createNamedFiles(dataFiles)
  const signed = await createCheckpointChecks(events, checkpoints)
  let compared = 0
  let erased = 0
  const report = (found: Partial<Found>): VerifyReport => {
    const { log, rewritten, lost, lostTexts, ...views } = found
    const counts = chains.counts()
    const others = chains.others()
    return {
      sound: Object.keys(found).length === 0,
      log: {
        ...counts,
        soundUpTo: chains.position(),
        erased,
        checkpoints: signed.agreed(),
        ...(rewritten !== undefined && { rewritten }),
        ...(lostTexts && { lostTexts }),
        ...(log && { difference: log }),
        ...(lost && { lost }),
        ...(others.length > 0 && { others }),
      },
      views: { documents: compared, models: [...modelReports.values()], ...views },
    }
  }
  /** Returns the report of a sound log and sound read models. */
  const soundReport = async (): Promise<VerifyReport> => {
    const compared = await named?.compare(events, chains.position(), signal)
    return compared === undefined
      ? report({})
      : { ...report({}), sound: compared.problems.length === 0, files: compared }
  }

  const logFile = started(files?.log)
  const viewsFile = started(files?.views)

  let snapshot: ReadSnapshot | undefined
  try {
    // Take the snapshot before reading the log's end, so that no sound read model is ahead of that end.
    snapshot = await readStore?.snapshot()
    const stored = snapshot === undefined ? new Map<ReadModel, Position>() : await targetsOf(models, snapshot)
    const last = await lastPositionOf(events)
    const beyond = [...stored].find(([, position]) => position > last)
    const end = known?.position === undefined ? last : Math.min(last, known.position - 1)
    const logProgress = progressOf('log', end, onProgress)
    const documents = createReplayedDocuments(scratch, snapshot?.isIsolated ? snapshot : undefined)
    const replay = createReplay({
      events,
      chains,
      documents,
      texts,
      onSound(event) {
        signed.add(event)
        named?.add(event)
      },
      signal,
    })
    const wanted = new Map([...stored].map(([model, position]) => [model, Math.min(position, end)]))
    await replay.readTo(end, wanted, (position) => logProgress(position, position >= end))
    const fileProblem = await logFile
    if (fileProblem !== undefined) {
      if ((fileProblem.position ?? end + 1) <= end) throw new EndsEarlier(fileProblem)
      return report({ log: fileProblem })
    }
    if (beyond !== undefined) return report({ log: cutOff(...beyond, last) })

    const rewritten = signed.problem()
    if (rewritten !== undefined) return report({ rewritten })

    // The embedded log cannot lose a stream unnoticed: the check of its file has counted the events.
    const lost =
      files?.log === undefined
        ? [...chains.doubtful(), ...(await lostStreams(events, chains.streams(), signal))].slice(0, MAX_LOST)
        : []
    if (lost.length > 0) return report({ lost })

    const sealed = await texts.found()
    erased = sealed.erased
    if (sealed.lost.length > 0) return report({ lostTexts: sealed.lost })

    if (readStore === undefined || snapshot === undefined) return await soundReport()
    const current = await comparable(models, snapshot, replay)
    const viewProgress = progressOf('views', documentsOf(current, documents), onProgress)
    for (const model of current) {
      const sides = { snapshot, readStore, scratch, documents, replay, signal }
      const difference = await compareModel(model, sides, (n) => {
        compared += n
        viewProgress(compared, false)
      })
      modelReports.set(model, {
        name: model.name,
        state: difference === undefined ? 'same' : 'different',
        position: replay.position(model),
      })
      if (difference !== undefined) return report({ difference })
    }
    viewProgress(compared, true)
    await requireEnd(replay, current, end)
    // Check the file last: a difference found by the comparison names the document.
    const damage = await viewsFile
    return damage === undefined ? await soundReport() : report({ failure: damage })
  } catch (error) {
    if (error instanceof LogBroken && !(error instanceof EndsEarlier)) {
      const fileProblem = await logFile
      if ((fileProblem?.position ?? chains.position() + 1) > chains.position()) {
        return report({ log: earlier(error.problem, fileProblem) })
      }
      if (fileProblem !== undefined) throw new EndsEarlier(fileProblem)
    }
    if (error instanceof FoldFailed || error instanceof BrokenFile) return report({ failure: error.message })
    throw error
  } finally {
    await snapshot?.close()
  }
}

/** Folds the rest of the log, to check that lagging read models can reach its end. @throws FoldFailed */
async function requireEnd(replay: Replay, models: readonly ReadModel[], end: Position): Promise<void> {
  try {
    await replay.readTo(LOG_START, new Map(models.map((model) => [model, end])))
  } catch (error) {
    if (!(error instanceof FoldFailed)) throw error
    throw new FoldFailed(`a read model cannot reach the end of the log. ${error.message}`, { cause: error })
  }
}

interface Found {
  log: LogProblem
  rewritten: string
  lost: readonly LogProblem[]
  lostTexts: readonly LogProblem[]
  difference: DocumentDifference
  failure: string
}

async function lastPositionOf(events: EventStore): Promise<Position> {
  try {
    return await events.lastPosition()
  } catch (error) {
    // The last page may be damaged. Reading from the start then shows how far the log is sound.
    if (error instanceof BrokenFile) return Number.MAX_SAFE_INTEGER
    throw error
  }
}

/** Starts a check. A failure before its result is awaited must not end the process. */
function started<T>(check: (() => Promise<T>) | undefined): Promise<T | undefined> {
  const found = check?.() ?? Promise.resolve(undefined)
  found.catch(() => {})
  return found
}

function cutOff(model: ReadModel, position: Position, last: Position): LogProblem {
  const problem = `the log ends at position ${last}, but the read model ${model.name} has events up to ${position}`
  return { problem, position: last + 1 }
}

function earlier(chain: LogProblem, file: LogProblem | undefined): LogProblem {
  if (file?.position === undefined || chain.position === undefined) return chain
  return file.position < chain.position ? file : chain
}
