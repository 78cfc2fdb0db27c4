/** The history of a repository, or of the server: found by its read model, read from the log. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import type { HistoryDocument } from '../projections/history.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { Services } from '../services.ts'
import { type HistoryFilter, isAskedFor } from './history-filter.ts'
import type { History, Slice } from './history-source.ts'

type Selection = Filter<HistoryDocument>

const OLDEST: Sort<HistoryDocument> = [['position', 1]]
/** Documents that are looked at in one turn. */
const CHUNK = 500

/** `repoId` undefined: of all repositories, and of what belongs to none. */
export function indexedHistory(services: Pick<Services, 'events' | 'views'>, repoId?: number): History {
  const { events, views } = services
  const all: Selection = repoId === undefined ? {} : { repoId }

  /** Whether the filter asks for this one of the selected documents. */
  const asks = (filter: HistoryFilter) => (document: HistoryDocument) =>
    (repoId === undefined || document.repoId === repoId) && isAskedFor(filter, document)

  /** Those that an index leads to, and that hold all that is asked for; the fewest that there are. */
  async function narrowest({ types, actor }: HistoryFilter): Promise<Selection> {
    // The server's history has the index of the log's order alone: a page of it is looked for in turns.
    if (repoId === undefined) return all
    const [type, ...others] = types ?? []
    const candidates: Selection[] = [
      ...(type !== undefined && others.length === 0 ? [{ repoId, type }] : []),
      ...(actor === undefined ? [] : [{ repoId, actor }]),
    ]
    const [only = all] = candidates
    if (candidates.length <= 1) return only
    const counts = await Promise.all(candidates.map((selection) => views.history.count(selection)))
    return candidates[counts.indexOf(Math.min(...counts))] ?? all
  }

  /** The selection that is exactly what is asked for, besides hidden types, when an index has it. */
  function exact({ types, actor, since, before }: HistoryFilter): Selection | undefined {
    if (since !== undefined || before !== undefined) return undefined
    if (types === undefined && actor === undefined) return all
    if (repoId === undefined) return undefined
    if (types === undefined) return actor === undefined ? all : { repoId, actor }
    const [type, ...others] = types
    return type !== undefined && others.length === 0 && actor === undefined ? { repoId, type } : undefined
  }

  async function* documents(selection: Selection, after: Position): AsyncGenerator<HistoryDocument[]> {
    let last = after
    for (;;) {
      const found = await views.history.find(
        { ...selection, position: { $gt: last } },
        { sort: OLDEST, limit: CHUNK },
      )
      if (found.length > 0) yield found
      if (found.length < CHUNK) return
      last = found.at(-1)?.position ?? last
      // An embedded store answers within the turn that asks it: others have theirs now.
      await nextTurn()
    }
  }

  async function* read(filter: HistoryFilter, after: Position): AsyncGenerator<RecordedEvent> {
    const isAsked = asks(filter)
    for await (const found of documents(await narrowest(filter), Math.max(after, LOG_START))) {
      yield* events.readPositions(found.filter(isAsked).map(({ position }) => position))
    }
  }

  /** Those of a selection whose types are hidden, ascending: few. */
  async function hiddenIn(selection: Selection, hidden: HistoryFilter['hidden']): Promise<Position[]> {
    if (hidden === undefined || hidden.size === 0 || 'type' in selection) return []
    const ids = await views.history.ids({ ...selection, type: { $in: [...hidden] } })
    return ids.map(Number).sort((a, b) => a - b)
  }

  async function exactPage(selection: Selection, filter: HistoryFilter, { skip, limit }: Slice) {
    const hidden = await hiddenIn(selection, filter.hidden)
    const total = (await views.history.count(selection)) - hidden.length
    if (skip >= total) return { positions: [], total }
    // The page begins as many documents later as hidden ones stand before it.
    let start = skip
    for (;;) {
      const [first] = await views.history.find(selection, { sort: OLDEST, skip: start, limit: 1 })
      if (first === undefined) return { positions: [], total }
      const before = hidden.filter((position) => position <= first.position).length
      if (skip + before === start) break
      start = skip + before
    }
    const positions: Position[] = []
    for (let from = start; positions.length < limit; from += limit) {
      const found = await views.history.find(selection, { sort: OLDEST, skip: from, limit })
      const shown = found.filter(asks(filter)).map(({ position }) => position)
      positions.push(...shown.slice(0, limit - positions.length))
      if (found.length < limit) break
    }
    return { positions, total }
  }

  async function scannedPage(filter: HistoryFilter, { skip, limit }: Slice, signal: AbortSignal) {
    const isAsked = asks(filter)
    const positions: Position[] = []
    let total = 0
    for await (const found of documents(await narrowest(filter), LOG_START)) {
      if (signal.aborted) break
      for (const { position } of found.filter(isAsked)) {
        if (total >= skip && positions.length < limit) positions.push(position)
        total += 1
      }
    }
    return { positions, total }
  }

  return {
    id: 'position',
    topic: repoId === undefined ? 'server' : `repository ${repoId}`,
    has: (live) => repoId === undefined || live.repoId === repoId,
    last: () => events.lastPosition(),
    read,
    async page(filter, slice, signal) {
      const wanted = withoutHidden(filter)
      if (wanted.types?.size === 0) return { events: [], total: 0 }
      const selection = exact(wanted)
      const { positions, total } =
        selection === undefined
          ? await scannedPage(wanted, slice, signal)
          : await exactPage(selection, wanted, slice)
      const page: RecordedEvent[] = []
      for await (const event of events.readPositions(positions)) page.push(event)
      return { events: page, total }
    },
  }
}

/** Hidden types are among those asked for only when none are named. */
function withoutHidden({ types, hidden, ...rest }: HistoryFilter): HistoryFilter {
  if (types === undefined) return hidden === undefined ? rest : { ...rest, hidden }
  return { ...rest, types: new Set([...types].filter((type) => !hidden?.has(type))) }
}
