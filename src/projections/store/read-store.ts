/**
 * The port to the stored read models. It has two adapters: `sqlite.ts` (embedded) and `mongodb.ts`. Both must pass
 * `test/projections/read-store-contract.ts`.
 *
 * The filter language is a small typed subset of MongoDB's. A filter outside of it does not compile.
 */
import type { Position } from '../../events/store/event-store.ts'

type Scalar = string | number | boolean | null
/** The type of a field's value when the field is present: filters can name optional fields, too. */
type Value<D, K extends keyof D> = Exclude<D[K], undefined>

/** The fields by which documents can be filtered and sorted. */
type ScalarField<D> = { [K in keyof D]-?: Value<D, K> extends Scalar ? K : never }[keyof D] & string
type ArrayField<D> = {
  [K in keyof D]-?: Value<D, K> extends readonly (string | number)[] ? K : never
}[keyof D] &
  string

type ScalarFilter<V> = V | { $in: readonly V[] } | { $gt?: V; $gte?: V; $lt?: V; $lte?: V }
type ArrayFilter<E> = E | { $in: readonly E[] } | WordsFilter<E>
/** Matches when every given string is the beginning of one of the field's strings. */
type WordsFilter<E> = E extends string ? { $words: readonly string[] } : never

/**
 * A document matches when all conditions hold. An empty filter matches every document. Null also matches a missing
 * field. A range matches only values of the bound's own type. `$words` with an empty list matches everything.
 */
export type Filter<D> = { [K in ScalarField<D>]?: ScalarFilter<Value<D, K>> } & {
  [K in ArrayField<D>]?: Value<D, K> extends readonly (infer E)[] ? ArrayFilter<E> : never
}

/** The most significant field comes first. 1 is ascending, -1 descending. Ties are broken by id, ascending. */
export type Sort<D> = readonly (readonly [field: ScalarField<D>, direction: 1 | -1])[]

export interface FindOptions<D> {
  sort?: Sort<D>
  skip?: number
  limit?: number
}

/**
 * Size above which a document is long, in bytes. Lists return its id and read it later, so that the size of a page
 * stays bounded.
 */
export const LONG_DOCUMENT = 16 * 1024

/** A document of a list. A long one may be only its id. */
export type Row<D> = { body: D } | { id: string }

/** The row from a store, possibly as JSON that a cache of parsed documents need not parse. */
export type StoredRow<D> = Row<D> | { text: string; parse: (text: string) => D }

export interface FoundPage<D> {
  rows: Row<D>[]
  /** The number of all documents that match. */
  total: number
}

export interface StoredPage<D> {
  rows: StoredRow<D>[]
  total: number
}

/** Returns the parsed page, for callers without a cache. */
export const foundPage = <D>({ rows, total }: StoredPage<D>): FoundPage<D> => ({
  rows: rows.map((row) => ('text' in row ? { body: row.parse(row.text) } : row)),
  total,
})

/** The fields of an index, the most significant first. 1 is ascending, -1 descending. */
export type Index<Field extends string = string> = { readonly [F in Field]?: 1 | -1 }

/** A collection without the type of its documents: all that an adapter needs. */
export interface AnyCollection {
  /** Only letters and underscores. */
  readonly name: string
  /** Each index lists first the fields of a filter, then those of a sort. */
  readonly indexes: readonly Index<string>[]
  /** The array fields that filters use. */
  readonly arrays: readonly string[]
  /**
   * For documents that are parts of a document of another collection: the field with the id of that one. Together with
   * `wordsIn` of the other collection. Their only array has words, of letters, marks and digits in lower case.
   */
  readonly partOf?: string
  /**
   * Fields of words that the documents do not have themselves: their parts have a field of the same name. A word may be
   * in any of the parts.
   */
  readonly wordsIn?: { readonly [field: string]: AnyCollection | undefined }
}

/** A collection of documents: its name and the fields that filters use. `D` is plain JSON. */
export interface Collection<D extends object> extends AnyCollection {
  readonly indexes: readonly Index<ScalarField<D>>[]
  readonly arrays: readonly ArrayField<D>[]
  readonly partOf?: ScalarField<D>
  readonly wordsIn?: { readonly [Field in ArrayField<D>]?: AnyCollection }
}

/** A stored document, with the position of the last event that was folded into it. */
export interface Stored<D> {
  id: string
  position: Position
  body: D
}

/** One document of a collection that an event touched. */
export interface Touched<D extends object = object> {
  collection: AnyCollection
  id: string
  /** The document as it was written; absent when it was deleted, or when it already held the event. */
  body?: D
}

export type Change =
  | {
      op: 'put'
      collection: AnyCollection
      id: string
      position: Position
      body: object
      /** The stored document before the change; null without one, absent when unknown. */
      replaces?: object | null
    }
  | {
      op: 'delete'
      collection: AnyCollection
      id: string
      /** In a store that servers share, a document with a later position stays. Without it, any is deleted. */
      position?: Position
    }

/** Changes in order: one list, or a stream of lists, so that a store can write while the caller creates more. */
export type Changes = readonly Change[] | AsyncIterable<readonly Change[]>

/** A part of a collection: the ids after `after`, in the order of their UTF-8 bytes. */
export interface IdRange {
  after?: string
  limit: number
}

/** A document of a range. The embedded store adds its JSON text. */
export interface RangeDocument<D extends object = object> extends Stored<D> {
  text?: string
}

/** A state of all documents for a reader during concurrent writes. */
export type ReadSnapshot = IsolatedSnapshot | (Snapshot & { readonly isIsolated: false })

/** Each read returns the state at its own time (MongoDB). */
interface Snapshot {
  checkpoint(name: string): Promise<Checkpoint | undefined>
  range(collection: AnyCollection, range: IdRange): Promise<RangeDocument[]>
  close(): Promise<void>
}

/** All reads return the state of one moment (embedded store). */
export interface IsolatedSnapshot extends Snapshot {
  readonly isIsolated: true
  /** The stored documents with these ids, in no order; missing ones are left out. */
  getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<RangeDocument<D>[]>
  /** The number of documents. */
  count(collection: AnyCollection): Promise<number>
}

/** The last position that a reader of the log has processed, and the version of its code. */
export interface Checkpoint {
  position: Position
  version: number
  /** The event at the position, by `placeOf`, which detects another log. */
  event?: string
}

/** A checkpoint in a store that several servers share, with its lease. */
export interface LeasedCheckpoint extends Checkpoint {
  /** Incarnation of the server that holds the lease; absent without one. */
  holder?: string
  /** Reason for the stop of its reader; absent while it runs. */
  stopped?: string
  /** Incarnation that requests the lease. */
  wanted?: string
}

/** The fields that a holder moves. */
export type MovedCheckpoint = Pick<LeasedCheckpoint, 'position' | 'version' | 'event' | 'stopped'>

/** Another server now moves a checkpoint. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'

  constructor(names: readonly string[]) {
    super(`another server has taken over: ${names.join(', ')}`)
  }
}

/**
 * Checkpoints of a store that several servers share. One server, the lease holder, moves each; the store refuses
 * others. Incarnation ids are unique, so they are the fencing tokens.
 */
export interface SharedCheckpoints {
  /** Reads checkpoints in one round trip; missing ones are left out. */
  read(names: readonly string[]): Promise<Map<string, LeasedCheckpoint>>
  /**
   * Takes the lease of a checkpoint that is still at `before` (undefined without a checkpoint). Returns false when
   * another server was faster, or has moved the checkpoint.
   */
  take(
    name: string,
    before: LeasedCheckpoint | undefined,
    after: Required<Pick<LeasedCheckpoint, 'holder'>> & Checkpoint,
  ): Promise<boolean>
  /** Moves checkpoints. @throws LeaseLost when one of them is not held by `holder`: then some may have moved */
  move(checkpoints: ReadonlyMap<string, MovedCheckpoint>, holder: string): Promise<void>
  /** Requests the lease from its holder. */
  request(name: string, by: string): Promise<void>
  /** Removes a checkpoint that is still `before`. Returns whether it was. */
  remove(name: string, before: LeasedCheckpoint): Promise<boolean>
  /** Releases a lease, for one server or for any. Does nothing when `holder` does not hold it. */
  release(name: string, holder: string, to?: string): Promise<void>
}

export interface ReadStore {
  /** Only in a store that servers share. */
  readonly shared?: SharedCheckpoints
  get<D extends object>(collection: Collection<D>, id: string): Promise<D | undefined>
  /** The stored documents with these ids, in no order; missing ones are left out. */
  getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<Stored<D>[]>
  find<D extends object>(collection: Collection<D>, filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  /** Returns the documents of `find`; for long ones possibly only the ids. */
  rows<D extends object>(
    collection: Collection<D>,
    filter: Filter<D>,
    options: FindOptions<D>,
  ): Promise<StoredRow<D>[]>
  count<D extends object>(collection: Collection<D>, filter: Filter<D>): Promise<number>
  /** Returns the results of `rows` and `count`, in one round trip where possible. */
  page<D extends object>(
    collection: Collection<D>,
    filter: Filter<D>,
    options: FindOptions<D>,
  ): Promise<StoredPage<D>>
  /** The ids of all documents that match, in no order. */
  ids<D extends object>(collection: Collection<D>, filter: Filter<D>): Promise<string[]>
  /** The stored documents with ids in a range, in the order of the ids. */
  range(collection: AnyCollection, range: IdRange): Promise<RangeDocument[]>
  /** Opens a snapshot for long reads. The caller closes it. */
  snapshot(): Promise<ReadSnapshot>
  /** Creates missing collections and indexes, and drops obsolete indexes that an earlier version created. */
  prepare(collections: readonly AnyCollection[]): Promise<void>
  /** Empties a collection. */
  clear(collection: AnyCollection): Promise<void>
  /** Removes a collection and its indexes, if it exists. */
  drop(collection: AnyCollection): Promise<void>
  /** The checkpoint of the reader with that name; undefined when it never ran. */
  checkpoint(name: string): Promise<Checkpoint | undefined>
  /** The checkpoints of several readers; those that never ran are left out. */
  checkpoints(names: readonly string[]): Promise<Map<string, Checkpoint>>
  /** Replaces a checkpoint if it is still `before`. Returns whether it was. */
  moveCheckpoint(name: string, before: Checkpoint | undefined, after: Checkpoint): Promise<boolean>
  /**
   * Writes the changes in order, then the checkpoints: atomically in the embedded store, while in MongoDB a crash may
   * leave changes without their checkpoints. So a reader must expect repeated events; the document's position shows
   * which ones it has. A put never replaces a document with a later position. In a shared store it also does nothing
   * when the document that it replaces is missing, as another server has deleted it later. Rejects with the error that
   * ends the changes.
   */
  apply(changes: Changes, checkpoints: ReadonlyMap<string, Checkpoint>): Promise<void>
  /**
   * Overwrites deleted data in the files of the embedded store.
   * @throws StoreUnavailable when running reads take too long
   */
  purge?(): Promise<void>
  /** Checks that the store answers. @throws StoreUnavailable when it does not */
  ping(): Promise<void>
  close(): Promise<void>
}
