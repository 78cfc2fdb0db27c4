/** Replays read models from the log, and checks the log at the same time. */

import { sealedIn } from '../../events/sealing/sealed-texts.ts'
import type { PassedOver } from '../../events/store/damage.ts'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
} from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'
import { BrokenEvent } from '../../events/store/sqlite/log.ts'
import type { ReadModel } from '../../projections/projector/read-model.ts'
import { eventsFor, readBatch } from '../../projections/projector/readable-events.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { Chains } from './chains.ts'
import type { ReplayedDocuments } from './replayed-documents.ts'
import type { SealedTexts } from './sealed-texts.ts'

/** Maximum size of a batch, in events and in characters of text. */
const BATCH = 4000
const BATCH_CHARACTERS = 8 * 1024 * 1024

/** Thrown for the first problem of the log. Later events are not read. */
export class LogBroken extends Error {
  override readonly name = 'LogBroken'
  readonly problem: LogProblem

  constructor(problem: LogProblem) {
    super(problem.problem)
    this.problem = problem
  }
}

/** The log is sound, but a read model can't be replayed from it. */
export class FoldFailed extends Error {
  override readonly name = 'FoldFailed'
}

export interface Replay {
  /**
   * Checks the log up to `end` or further. Replays each read model up to its own position in `models`. Calls
   * `onRead` with the position after each batch. @throws LogBroken, FoldFailed
   */
  readTo(
    end: Position,
    models: ReadonlyMap<ReadModel, Position>,
    onRead?: (position: Position) => void,
  ): Promise<void>
  /** The position up to which a read model is replayed. */
  position(model: ReadModel): Position
}

export interface ReplayOptions {
  events: EventStore
  chains: Chains
  documents: ReplayedDocuments
  /** Opens the texts of the events. */
  texts: Pick<SealedTexts, 'opened'>
  /** Called once for each sound event, as it is stored. */
  onSound: (event: RecordedEvent) => void
  signal: AbortSignal | undefined
}

export function createReplay({ events, chains, documents, texts, onSound, signal }: ReplayOptions): Replay {
  const positions = new Map<ReadModel, Position>()
  const positionOf = (model: ReadModel) => positions.get(model) ?? LOG_START

  function check(event: RecordedEvent): void {
    // When one read model is behind the others, checked events are read again.
    if (event.position <= chains.position()) return
    const problem = chains.next(event)
    if (problem !== undefined) throw new LogBroken(problem)
    onSound(event)
  }

  async function fold(batch: readonly RecordedEvent[], models: ReadonlyMap<ReadModel, Position>) {
    const read = readBatch(batch)
    const last = batch.at(-1)?.position ?? LOG_START
    for (const [model, target] of models) {
      const from = positionOf(model)
      const own = eventsFor(model, read, from, target)
      const advance = await model.advance(own.events, documents)
      const poison = advance.poison ?? own.poison
      if (poison !== undefined) throw failed(model.name, poison.event, poison.error)
      await documents.apply(model.collection, advance.changes)
      positions.set(model, Math.max(from, Math.min(last, target)))
    }
  }

  return {
    position: positionOf,
    async readTo(end, models, onRead = () => {}) {
      const behind = [...models].filter(([model, target]) => positionOf(model) < target)
      const until = Math.max(end, ...behind.map(([, target]) => target))
      const from = Math.min(chains.position(), ...behind.map(([model]) => positionOf(model)))
      if (until <= from) return
      // Events after the last target are only checked, not folded.
      const folded = Math.max(LOG_START, ...behind.map(([, target]) => target))
      const targets = new Map(behind)
      let batch: RecordedEvent[] = []
      let read = 0
      let characters = 0
      const flush = async () => {
        signal?.throwIfAborted()
        const opened = await texts.opened(batch)
        const own = opened.filter(({ position }) => position <= folded)
        await fold(own, targets).catch((error: unknown) => {
          throw error instanceof BrokenFile ? new FoldFailed(error.message, { cause: error }) : error
        })
        batch = []
        characters = 0
      }
      try {
        const passedOver = (event: PassedOver) => {
          if (event.position <= chains.position() || event.position > until) return
          const problem = chains.passedOver(event)
          if (problem !== undefined) throw new LogBroken(problem)
        }
        for await (const event of events.readAll({ from, withText: true, passedOver })) {
          if (event.position > until) break
          check(event)
          read += 1
          batch.push(event)
          characters += charactersOf(event.data)
          if (batch.length >= BATCH || characters > BATCH_CHARACTERS) await flush()
          if (read % BATCH !== 0) continue
          signal?.throwIfAborted()
          onRead(event.position)
        }
      } catch (error) {
        throw asLogBroken(error)
      }
      await flush()
      for (const [model, target] of targets) positions.set(model, target)
      onRead(until)
    },
  }
}

function failed(model: string, event: RecordedEvent, error: unknown): FoldFailed {
  const reason = error instanceof Error ? error.message : String(error)
  return new FoldFailed(
    `${model}: event ${event.position} (${event.type}, ${event.stream}@${event.revision}): ${reason}`,
    { cause: error },
  )
}

/** Turns an unreadable event or file of the log into LogBroken. Returns any other error unchanged. */
export function asLogBroken(error: unknown): unknown {
  if (error instanceof BrokenEvent) {
    const { message: problem, position, stream, revision } = error
    return new LogBroken({ problem, position, stream, revision })
  }
  return error instanceof BrokenFile ? new LogBroken({ problem: error.message }) : error
}

/** The approximate size of an event. Only texts make events large. */
function charactersOf(data: object): number {
  let sum = 0
  for (const value of Object.values(data)) if (typeof value === 'string') sum += value.length
  sum += sealedIn(data)?.text.length ?? 0
  return sum
}
