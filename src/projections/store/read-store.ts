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
 * A document of more than about this many bytes is long: a list names it by its id, and it is read when it is its turn.
 * So the size of a page does not depend on how long the documents are.
 */
export const LONG_DOCUMENT = 16 * 1024

/** A document of a list. A long one may be only its id. */
export type Row<D> = { body: D } | { id: string }

/** The same as a store gives it: perhaps as JSON, which nobody needs to parse who has the document of that text. */
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

/** The page for who keeps no documents. */
export const foundPage = <D>({ rows, total }: StoredPage<D>): FoundPage<D> => ({
  rows: rows.map((row) => ('text' in row ? { body: row.parse(row.text) } : row)),
  total,
})

/** The fields of an index, the most significant first. 1 is ascending, -1 descending. */
export type Index<Field extends string = string> = { readonly [F in Field]?: 1 | -1 }

/** A collection without the type of its documents: all that an adapter needs to know. */
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
      /** The stored document that it replaces, null when there is none. Absent when that is not known. */
      replaces?: object | null
    }
  | {
      op: 'delete'
      collection: AnyCollection
      id: string
      /** In a store that servers share, a document with a later position stays. Without it, any is deleted. */
      position?: Position
    }

/** Changes in their order: one list, or one list after the other, so that a store can write while more are made. */
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

/** A view of all documents for a reader that goes through them while others write. */
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
  /** The event at the position, as `placeOf` says it: another log has another one there. */
  event?: string
}

/** A checkpoint in a store that several servers share, with what the others must know of it. */
export interface LeasedCheckpoint extends Checkpoint {
  /** The incarnation of the server that moves it; absent when none does. */
  holder?: string
  /** Why its reader has stopped; absent while it runs. */
  stopped?: string
  /** The incarnation that asks the holder for it. */
  wanted?: string
}

/** How a holder moves a checkpoint. */
export type MovedCheckpoint = Pick<LeasedCheckpoint, 'position' | 'version' | 'event' | 'stopped'>

/** A checkpoint is moved by another server now. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'

  constructor(names: readonly string[]) {
    super(`another server has taken over: ${names.join(', ')}`)
  }
}

/**
 * Checkpoints of a store that several servers share. Each is moved by one server, its holder: whoever moves it names
 * itself, and the store refuses others. An incarnation never comes back, so its id is the fencing token.
 */
export interface SharedCheckpoints {
  /** In one round trip; those that nobody has made are left out. */
  read(names: readonly string[]): Promise<Map<string, LeasedCheckpoint>>
  /**
   * Takes a checkpoint from who holds it, as it was read (undefined: there was none); `version` and `position` are then
   * those of `before`. Returns false when another server was faster, or the checkpoint was moved since.
   */
  take(
    name: string,
    before: LeasedCheckpoint | undefined,
    after: Required<Pick<LeasedCheckpoint, 'holder'>> & Checkpoint,
  ): Promise<boolean>
  /** Moves checkpoints. @throws LeaseLost when one of them is not held by `holder`: then some may have moved */
  move(checkpoints: ReadonlyMap<string, MovedCheckpoint>, holder: string): Promise<void>
  /** Asks the holder for a checkpoint. */
  want(name: string, by: string): Promise<void>
  /** Removes a checkpoint that is still as it was read. Returns whether it was. */
  remove(name: string, before: LeasedCheckpoint): Promise<boolean>
  /** Gives a checkpoint up, to a certain server or to any. Nothing happens when `holder` does not hold it. */
  give(name: string, holder: string, to?: string): Promise<void>
}

export interface ReadStore {
  /** Only a store that servers share has it. */
  readonly shared?: SharedCheckpoints
  get<D extends object>(collection: Collection<D>, id: string): Promise<D | undefined>
  /** The stored documents with these ids, in no order; missing ones are left out. */
  getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<Stored<D>[]>
  find<D extends object>(collection: Collection<D>, filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  /** The documents that `find` returns, the long ones perhaps only by their ids. */
  rows<D extends object>(
    collection: Collection<D>,
    filter: Filter<D>,
    options: FindOptions<D>,
  ): Promise<StoredRow<D>[]>
  count<D extends object>(collection: Collection<D>, filter: Filter<D>): Promise<number>
  /** What `rows` and `count` return, in one round trip where the store can. */
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
  /** Creates what the collections and their indexes lack, and drops own indexes that are no longer declared. */
  prepare(collections: readonly AnyCollection[]): Promise<void>
  /** Empties a collection. */
  clear(collection: AnyCollection): Promise<void>
  /** Removes a collection and its indexes; nothing happens when it does not exist. */
  drop(collection: AnyCollection): Promise<void>
  /** The checkpoint of the reader with that name; undefined when it never ran. */
  checkpoint(name: string): Promise<Checkpoint | undefined>
  /** The checkpoints of several readers; those that never ran are left out. */
  checkpoints(names: readonly string[]): Promise<Map<string, Checkpoint>>
  /** Replaces a checkpoint if it is still `before`. Returns whether it was. */
  moveCheckpoint(name: string, before: Checkpoint | undefined, after: Checkpoint): Promise<boolean>
  /**
   * Writes the changes in their order, then the checkpoints, which are read when all changes are there. The embedded
   * store does it in one transaction. In MongoDB a crash may leave changes without their checkpoints. So a reader must
   * expect the same event again; the document's position shows whether it already holds the event. A put never replaces
   * a document with a later position. In a store that servers share, a put also does nothing when the document that it
   * replaces is gone: another server has deleted it later. When the changes end with an error, `apply` rejects with it.
   */
  apply(changes: Changes, checkpoints: ReadonlyMap<string, Checkpoint>): Promise<void>
  /**
   * Overwrites in the files of the store what was deleted or replaced before. Only the embedded store has such files.
   * @throws StoreUnavailable when they are read for too long
   */
  purge?(): Promise<void>
  /** Checks that the store answers. @throws StoreUnavailable when it does not */
  ping(): Promise<void>
  close(): Promise<void>
}
