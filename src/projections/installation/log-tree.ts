/**
 * The Merkle tree over the log, kept as tiles beside the read models: each has up to 256 hashes of one level, as in
 * c2sp.org/tlog-tiles. Tiles follow from the log alone, so nodes may write them at the same time, and a lost tree is built
 * again.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { nodeHash, type ReadNode } from '../../domain/transparency/merkle-tree.ts'
import { leafOf } from '../../events/store/chain.ts'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
} from '../../events/store/event-store.ts'
import type { Change, Collection, ReadStore } from '../store/read-store.ts'

/** Number of levels of the tree in a tile, and of hashes in its lowest one. */
const TILE_LEVELS = 8
const TILE_WIDTH = 2 ** TILE_LEVELS
const HASH_BYTES = 32
/** Number of events that are added together. They hold the event loop for a few milliseconds. */
const BATCH = 512
/** Pause between two batches, in milliseconds: requests come first. */
const PAUSE_MS = 10

interface Tile {
  level: number
  index: number
  /** The hashes, one after the other, in base64. */
  hashes: string
  /** Positions of the events; empty above level 0. */
  positions: readonly Position[]
  /** The first position; 0 above level 0. */
  first: Position
}

/** The end of the tree. */
interface Head {
  size: number
  /** Position and hash of the last event. They show whether the log is still the same one. */
  position: Position
  hash: string
}

const tiles: Collection<Tile> = { name: 'log_tiles', indexes: [{ level: 1, first: -1 }], arrays: [] }
const heads: Collection<Head> = { name: 'log_tree', indexes: [], arrays: [] }
const HEAD = 'head'

/** A tile that is being filled. */
interface OpenTile {
  index: number
  hashes: Uint8Array[]
  positions: Position[]
}

const tileId = (level: number, index: number) => `${level}.${index}`

/** The tree lacks a hash: another process has removed it, or is building it again. */
export class LogTreeIncomplete extends Error {
  override readonly name = 'LogTreeIncomplete'
}

export type LogTree = ReturnType<typeof openLogTree>

/** Opens the tree over the stored log. Call `prepare` before anything else. */
export function openLogTree(store: ReadStore, events: Pick<EventStore, 'readAll' | 'readPositions'>) {
  const headNow = () => store.get(heads, HEAD)

  async function hashesOf(level: number, index: number): Promise<Buffer> {
    const tile = await store.get(tiles, tileId(level, index))
    return Buffer.from(tile?.hashes ?? '', 'base64')
  }

  /** Whether the log still has the last event of the tree. A restored log may end earlier. */
  async function isInLog({ position, hash }: Head): Promise<boolean> {
    for await (const { metadata } of events.readPositions([position])) return metadata.hash === hash
    return false
  }

  /** Returns the tile at the end of each level. A tile may have more hashes than `size` when a crash came before the head. */
  async function openTiles(size: number): Promise<OpenTile[]> {
    const open: OpenTile[] = []
    for (let count = size, level = 0; count > 0; count = Math.floor(count / TILE_WIDTH), level++) {
      const index = Math.floor(count / TILE_WIDTH)
      const width = count % TILE_WIDTH
      const tile = width === 0 ? undefined : await store.get(tiles, tileId(level, index))
      const bytes = Buffer.from(tile?.hashes ?? '', 'base64')
      if (bytes.length < width * HASH_BYTES) throw new LogTreeIncomplete()
      const positions = level === 0 ? (tile?.positions.slice(0, width) ?? []) : []
      open.push({ index, hashes: splitHashes(bytes).slice(0, width), positions })
    }
    return open
  }

  /** Returns the head of the tree and the tiles to continue with. Removes the tree of another log. */
  async function begin(): Promise<{ head: Head | undefined; open: OpenTile[] }> {
    const head = await headNow()
    if (head === undefined) return { head, open: [] }
    try {
      if (await isInLog(head)) return { head, open: await openTiles(head.size) }
    } catch (error) {
      if (!(error instanceof LogTreeIncomplete)) throw error
    }
    // The head comes last: without it, tiles that a crash left would stay in the next tree.
    await store.clear(tiles)
    await store.clear(heads)
    return { head: undefined, open: [] }
  }

  /** Returns a function that reads nodes, each tile once. */
  function nodeReader(): ReadNode {
    const known = new Map<string, Promise<Buffer>>()
    function tile(level: number, index: number): Promise<Buffer> {
      const id = tileId(level, index)
      const found = known.get(id) ?? hashesOf(level, index)
      known.set(id, found)
      return found
    }
    return async (height, index) => {
      const width = 2 ** (height % TILE_LEVELS)
      const first = index * width
      const bytes = await tile(Math.floor(height / TILE_LEVELS), Math.floor(first / TILE_WIDTH))
      const start = (first % TILE_WIDTH) * HASH_BYTES
      const hashes = splitHashes(bytes.subarray(start, start + width * HASH_BYTES))
      if (hashes.length < width) throw new LogTreeIncomplete()
      return completeRoot(hashes)
    }
  }

  return {
    prepare: () => store.prepare([tiles, heads]),

    /** Number of events in the tree. */
    size: async (): Promise<number> => (await headNow())?.size ?? 0,

    /**
     * Adds the events up to the end of the log. Returns the size of the tree.
     * @throws the signal's reason when it is aborted; then a later call continues
     */
    async extend(signal: AbortSignal): Promise<number> {
      const { head, open } = await begin()
      let size = head?.size ?? 0
      let from = head?.position ?? LOG_START
      for (;;) {
        signal.throwIfAborted()
        const batch: RecordedEvent[] = []
        for await (const event of events.readAll({ from, maxCount: BATCH })) batch.push(event)
        const last = batch.at(-1)
        if (last === undefined) return size
        const changes = addAll(open, batch)
        size += batch.length
        from = last.position
        const end: Head = { size, position: from, hash: last.metadata.hash ?? '' }
        // MongoDB writes two collections at the same time. The head comes last: after a crash in between, the tiles have
        // more hashes than it counts.
        await store.apply(changes, new Map())
        await store.apply([{ op: 'put', collection: heads, id: HEAD, position: from, body: end }], new Map())
        if (batch.length < BATCH) return size
        await delay(PAUSE_MS, undefined, { signal })
      }
    },

    nodeReader,

    /** Returns the index of the event at a position; undefined when the tree does not have it. */
    async indexOf(position: Position): Promise<number | undefined> {
      const [tile] = await store.find(
        tiles,
        { level: 0, first: { $lte: position } },
        { sort: [['first', -1]], limit: 1 },
      )
      const offset = tile?.positions.indexOf(position) ?? -1
      return tile === undefined || offset < 0 ? undefined : tile.index * TILE_WIDTH + offset
    },
  }
}

function splitHashes(bytes: Buffer): Buffer[] {
  const count = Math.floor(bytes.length / HASH_BYTES)
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES))
}

/** Returns the root of a complete subtree. `hashes`: a power of two. */
function completeRoot(hashes: readonly Uint8Array[]): Uint8Array {
  const [first, second] = hashes
  if (first === undefined) throw new LogTreeIncomplete()
  if (second === undefined) return first
  const middle = hashes.length / 2
  return nodeHash(completeRoot(hashes.slice(0, middle)), completeRoot(hashes.slice(middle)))
}

/** Adds events to the open tiles. Returns the changes of the stored ones. */
function addAll(open: OpenTile[], batch: readonly RecordedEvent[]): Change[] {
  const changed = new Map<string, Change>()
  let position: Position = LOG_START

  function put(level: number, { index, hashes, positions }: OpenTile): void {
    const body: Tile = {
      level,
      index,
      hashes: Buffer.concat(hashes).toString('base64'),
      positions: [...positions],
      first: positions[0] ?? 0,
    }
    const id = tileId(level, index)
    changed.set(id, { op: 'put', collection: tiles, id, position, body })
  }

  function add(level: number, hash: Uint8Array): void {
    const tile = open[level] ?? { index: 0, hashes: [], positions: [] }
    tile.hashes.push(hash)
    if (level === 0) tile.positions.push(position)
    open[level] = tile
    if (tile.hashes.length < TILE_WIDTH) return
    put(level, tile)
    open[level] = { index: tile.index + 1, hashes: [], positions: [] }
    add(level + 1, completeRoot(tile.hashes))
  }

  for (const event of batch) {
    position = event.position
    add(0, leafOf(event))
  }
  for (const [level, tile] of open.entries()) if (tile.hashes.length > 0) put(level, tile)
  return [...changed.values()]
}
