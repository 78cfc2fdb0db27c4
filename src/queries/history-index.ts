/** The history of a repository, or of the server: found by its read model, read from the log. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import type { HistoryDocument } from '../projections/history.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { Services } from '../services.ts'
import type { Views } from '../projections/views.ts'
import { type HistoryFilter, isAskedFor } from './history-filter.ts'
import type { History, Slice } from './history-source.ts'

type Selection = Filter<HistoryDocument>

const OLDEST: Sort<HistoryDocument> = [['position', 1]]
/** Documents that are looked at in one turn. */
const CHUNK = 500

/** `repoId` undefined: of all repositories, and of what belongs to none. */
export function indexedHistory(
  services: Pick<Services, 'events'> & { views: Pick<Views, 'history'> },
  repoId?: number,
): History {
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

  async function* read(
    filter: HistoryFilter,
    after: Position,
    upTo = Number.MAX_SAFE_INTEGER,
  ): AsyncGenerator<RecordedEvent> {
    const isAsked = asks(filter)
    for await (const found of documents(await narrowest(filter), Math.max(after, LOG_START))) {
      const positions = found.filter(isAsked).map(({ position }) => position)
      yield* events.readPositions(positions.filter((position) => position <= upTo))
      if ((found.at(-1)?.position ?? upTo) >= upTo) return
    }
  }

  /** Those of a selection whose types are hidden, ascending. */
  async function hiddenIn(selection: Selection, hidden: HistoryFilter['hidden']): Promise<Position[]> {
    if (hidden === undefined || hidden.size === 0 || 'type' in selection) return []
    const ids = await views.history.ids({ ...selection, type: { $in: [...hidden] } })
    return ids.map(Number).sort((a, b) => a - b)
  }

  async function exactPage(
    selection: Selection,
    filter: HistoryFilter,
    { skip, limit }: Slice,
    signal: AbortSignal,
  ) {
    const hidden = await hiddenIn(selection, filter.hidden)
    const total = (await views.history.count(selection)) - hidden.length
    if (skip >= total) return { positions: [], total }
    if (hidden.length === 0) {
      const found = await views.history.find(selection, { sort: OLDEST, skip, limit })
      return { positions: found.map(({ position }) => position), total }
    }
    const { after, shown } = await hiddenBefore(selection, hidden, skip, signal)
    // No hidden one stands between that and the first of the page.
    const range: Selection = { ...selection, position: { $gt: after } }
    const [first] = await views.history.find(range, { sort: OLDEST, skip: skip - shown, limit: 1 })
    const positions: Position[] = []
    const size = Math.min(limit, total - skip)
    if (first === undefined || signal.aborted) return { positions, total }
    for await (const found of documents(selection, first.position - 1)) {
      const those = found.filter(asks(filter)).map(({ position }) => position)
      positions.push(...those.slice(0, size - positions.length))
      if (positions.length >= size || signal.aborted) break
    }
    return { positions, total }
  }

  /**
   * The last hidden one that stands before the shown one with a number: where, and how many shown ones stand
   * before it. A binary search: a dozen counts for thousands of hidden ones. They are of a range with one end, which
   * the index alone answers, and the first ones are the same for every page.
   */
  async function hiddenBefore(
    selection: Selection,
    hidden: readonly Position[],
    number: number,
    signal: AbortSignal,
  ): Promise<{ after: Position; shown: number }> {
    let after = LOG_START
    let shown = 0
    let low = 0
    let high = hidden.length
    while (low < high && !signal.aborted) {
      const middle = (low + high) >> 1
      const position = hidden[middle] ?? Number.MAX_SAFE_INTEGER
      const before = (await views.history.count({ ...selection, position: { $lt: position } })) - middle
      if (before > number) high = middle
      else {
        after = position
        shown = before
        low = middle + 1
      }
      await nextTurn()
    }
    return { after, shown }
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
          : await exactPage(selection, wanted, slice, signal)
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
