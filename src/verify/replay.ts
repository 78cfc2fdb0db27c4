/** Read models made again from the log; the log is checked on the way. */
import { decode } from '../events/codec.ts'
import type { DomainEvent, Recorded } from '../events/domain-events.ts'
import { type EventStore, LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import type { LogProblem } from '../events/sqlite-check.ts'
import { BrokenEvent } from '../events/sqlite-log.ts'
import type { ReadModel } from '../projections/read-model.ts'
import { BrokenFile } from '../sqlite.ts'
import type { Chains } from './chains.ts'
import type { ReplayedDocuments } from './replayed-documents.ts'

/** Events that are folded at once, and how many characters of text they may have. */
const BATCH = 4000
const BATCH_CHARACTERS = 8 * 1024 * 1024

/** The log stops being sound here: nothing after it is looked at. */
export class LogBroken extends Error {
  override readonly name = 'LogBroken'
  readonly problem: LogProblem

  constructor(problem: LogProblem) {
    super(problem.problem)
    this.problem = problem
  }
}

/** The log is sound, and a read model can't be made of it. */
export class FoldFailed extends Error {
  override readonly name = 'FoldFailed'
}

export interface Replay {
  /**
   * Reads the log up to a position, at least, and each read model exactly up to its own. `onRead` is told the position
   * after each batch. @throws LogBroken, FoldFailed
   */
  readTo(
    end: Position,
    models: ReadonlyMap<ReadModel, Position>,
    onRead?: (position: Position) => void,
  ): Promise<void>
  /** The position that a read model holds. */
  position(model: ReadModel): Position
}

export interface ReplayOptions {
  events: EventStore
  chains: Chains
  documents: ReplayedDocuments
  signal: AbortSignal | undefined
}

export function createReplay({ events, chains, documents, signal }: ReplayOptions): Replay {
  const positions = new Map<ReadModel, Position>()
  const positionOf = (model: ReadModel) => positions.get(model) ?? LOG_START

  function check(event: RecordedEvent): void {
    // A read model that is behind the others needs events that have been checked.
    if (event.position <= chains.position()) return
    const problem = chains.next(event)
    if (problem !== undefined) throw new LogBroken(problem)
  }

  async function fold(batch: readonly RecordedEvent[], models: ReadonlyMap<ReadModel, Position>) {
    const decoded = decodeAll(batch)
    const last = batch.at(-1)?.position ?? LOG_START
    for (const [model, target] of models) {
      const from = positionOf(model)
      const advance = await model.advance(within(decoded, from, target), documents)
      if (advance.poison !== undefined) throw failed(model.name, advance.poison.event, advance.poison.error)
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
      // Beyond the last target events are checked and not folded.
      const folded = Math.max(LOG_START, ...behind.map(([, target]) => target))
      const targets = new Map(behind)
      let batch: RecordedEvent[] = []
      let read = 0
      let characters = 0
      const flush = async () => {
        signal?.throwIfAborted()
        await fold(batch, targets).catch((error: unknown) => {
          throw error instanceof BrokenFile ? new FoldFailed(error.message, { cause: error }) : error
        })
        batch = []
        characters = 0
      }
      try {
        for await (const event of events.readAll({ from, withText: true })) {
          if (event.position > until) break
          check(event)
          read += 1
          if (event.position <= folded) {
            batch.push(event)
            characters += charactersOf(event.data)
          }
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

/** Those after one position and up to another: all of them, mostly. */
function within(events: readonly Recorded<DomainEvent>[], after: Position, upTo: Position) {
  const [first, last] = [events[0], events.at(-1)]
  if (first === undefined || last === undefined) return events
  return first.position > after && last.position <= upTo
    ? events
    : events.filter(({ position }) => position > after && position <= upTo)
}

function decodeAll(batch: readonly RecordedEvent[]): Recorded<DomainEvent>[] {
  return batch.map((event) => {
    try {
      return decode(event)
    } catch (error) {
      throw failed('all', event, error)
    }
  })
}

function failed(model: string, event: RecordedEvent, error: unknown): FoldFailed {
  const reason = error instanceof Error ? error.message : String(error)
  return new FoldFailed(
    `${model}: event ${event.position} (${event.type}, ${event.stream}@${event.revision}): ${reason}`,
    { cause: error },
  )
}

/** What the log's file can't give is where it stops being sound. */
export function asLogBroken(error: unknown): unknown {
  if (error instanceof BrokenEvent) {
    const { message: problem, position, stream, revision } = error
    return new LogBroken({ problem, position, stream, revision })
  }
  return error instanceof BrokenFile ? new LogBroken({ problem: error.message }) : error
}

/** Roughly: texts are what makes events large. */
function charactersOf(data: object): number {
  let sum = 0
  for (const value of Object.values(data)) if (typeof value === 'string') sum += value.length
  return sum
}
