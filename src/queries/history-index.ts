/** The history of a repository, or of the server: found by its read model, read from the log. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LOG_START, type Position, type RecordedEvent } from '../events/event-store.ts'
import { type HistoryDocument, isForAdmins } from '../projections/history.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { Views } from '../projections/views.ts'
import type { Services } from '../services.ts'
import { type HistoryFilter, isAskedFor } from './history-filter.ts'
import type { History, Slice } from './history-source.ts'

/** Documents that an index leads to. */
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

  /** All of these hold what is asked for. The server's history has the index of the log's order alone. */
  function selections({ types, actor, adminsOnly }: HistoryFilter): Selection[] {
    if (repoId === undefined) return [{}]
    const visible = adminsOnly === undefined ? {} : { adminsOnly }
    const [type, ...others] = types ?? []
    const narrow: Selection[] = [
      ...(type !== undefined && others.length === 0 ? [{ repoId, type }] : []),
      ...(actor === undefined ? [] : [{ repoId, actor, ...visible }]),
    ]
    return narrow.length > 0 ? narrow : [{ repoId, ...visible }]
  }

  /** The selection with the fewest documents. */
  async function narrowest(filter: HistoryFilter): Promise<Selection> {
    const [first = {}, ...others] = selections(filter)
    if (others.length === 0) return first
    const counts = await Promise.all([first, ...others].map((selection) => views.history.count(selection)))
    return [first, ...others][counts.indexOf(Math.min(...counts))] ?? first
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
    for await (const found of documents(await narrowest(filter), Math.max(after, LOG_START))) {
      const positions = found
        .filter((document) => isAskedFor(filter, document))
        .map(({ position }) => position)
      yield* events.readPositions(positions.filter((position) => position <= upTo))
      if ((found.at(-1)?.position ?? upTo) >= upTo) return
    }
  }

  async function indexedPage(selection: Selection, { skip, limit }: Slice) {
    const total = await views.history.count(selection)
    if (skip >= total) return { positions: [], total }
    const found = await views.history.find(selection, { sort: OLDEST, skip, limit })
    return { positions: found.map(({ position }) => position), total }
  }

  async function scannedPage(
    selection: Selection,
    filter: HistoryFilter,
    { skip, limit }: Slice,
    signal: AbortSignal,
  ) {
    const positions: Position[] = []
    let total = 0
    for await (const found of documents(selection, LOG_START)) {
      if (signal.aborted) break
      for (const { position } of found.filter((document) => isAskedFor(filter, document))) {
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
    async page(asked, slice, signal) {
      const filter = withVisibleTypes(asked)
      if (filter.types?.size === 0) return { events: [], total: 0 }
      const selection = await narrowest(filter)
      const { positions, total } = isExactly(filter, selection)
        ? await indexedPage(selection, slice)
        : await scannedPage(selection, filter, slice, signal)
      const page: RecordedEvent[] = []
      for await (const event of events.readPositions(positions)) page.push(event)
      return { events: page, total }
    },
  }
}

/** Whether a selection that holds what is asked for holds nothing else. */
function isExactly({ types, actor, since, before }: HistoryFilter, selection: Selection): boolean {
  return (
    (types === undefined || 'type' in selection) &&
    (actor === undefined || 'actor' in selection) &&
    since === undefined &&
    before === undefined
  )
}

/** Names only types that the requester may see, so that the index of types leads to nothing else. */
function withVisibleTypes(filter: HistoryFilter): HistoryFilter {
  const { types, adminsOnly } = filter
  if (types === undefined || adminsOnly === undefined) return filter
  return { ...filter, types: new Set([...types].filter((type) => !isForAdmins(type))) }
}
