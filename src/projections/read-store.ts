/**
 * The port to the read models. Two adapters stand behind it: `sqlite.ts` (embedded) and `mongodb.ts`.
 * `test/projections/read-store-contract.ts` is what both must do.
 *
 * The filter language is a small typed subset of MongoDB's; what is outside of it does not compile.
 */
import type { Position } from '../events/event-store.ts'

type Scalar = string | number | boolean | null
/** What a field holds when it is there: optional fields can be found by, too. */
type Value<D, K extends keyof D> = Exclude<D[K], undefined>

/** Fields of a document by which it can be found and sorted. */
export type ScalarField<D> = { [K in keyof D]-?: Value<D, K> extends Scalar ? K : never }[keyof D] & string
export type ArrayField<D> = {
  [K in keyof D]-?: Value<D, K> extends readonly (string | number)[] ? K : never
}[keyof D] &
  string

type ScalarFilter<V> = V | { $in: readonly V[] } | { $gt?: V; $gte?: V; $lt?: V; $lte?: V }
type ArrayFilter<E> = E | { $in: readonly E[] } | { $all: readonly E[] } | WordsFilter<E>
/** Every given string is the beginning of one of the field's strings. */
type WordsFilter<E> = E extends string ? { $words: readonly string[] } : never

/**
 * All conditions must hold. An empty filter matches every document. Null matches a missing field, too; a
 * range has only values of the bound's own type; `$all` and `$words` of an empty list demand nothing.
 */
export type Filter<D> = { [K in ScalarField<D>]?: ScalarFilter<Value<D, K>> } & {
  [K in ArrayField<D>]?: Value<D, K> extends readonly (infer E)[] ? ArrayFilter<E> : never
}

/** Most significant first; 1 ascending, -1 descending. Ties are broken by id, ascending. */
export type Sort<D> = readonly (readonly [field: ScalarField<D>, direction: 1 | -1])[]

export interface FindOptions<D> {
  sort?: Sort<D>
  skip?: number
  limit?: number
}

/** A kind of document, whatever its fields: what an adapter needs to know of it. */
export interface AnyCollection {
  /** Letters and underscores. */
  readonly name: string
  /** Each index lists the fields of a filter and then of a sort, in that order. */
  readonly indexes: readonly (readonly (readonly [field: string, direction: 1 | -1])[])[]
  /** Array fields that filters name. */
  readonly arrays: readonly string[]
}

/** A kind of document: its name, and by what it is found. `D` is plain JSON. */
export interface Collection<D extends object> extends AnyCollection {
  readonly indexes: readonly Sort<D>[]
  readonly arrays: readonly ArrayField<D>[]
}

/** A document with the position of the last event that it holds. */
export interface Stored<D> {
  id: string
  position: Position
  body: D
}

/** One document of a collection. */
export interface Touched {
  collection: AnyCollection
  id: string
}

export type Change =
  | { op: 'put'; collection: AnyCollection; id: string; position: Position; body: object }
  | { op: 'delete'; collection: AnyCollection; id: string }

/** A part of a collection: ids after one, in the order of their UTF-8 bytes. */
export interface IdRange {
  after?: string
  limit: number
}

/** A document of a range; with its JSON, from a store that has it at hand. */
export interface RangeDocument<D extends object = object> extends Stored<D> {
  text?: string
}

/** The documents for one who goes through all of them while others write. */
export type ReadSnapshot = IsolatedSnapshot | PassingSnapshot

interface Snapshot {
  checkpoint(name: string): Promise<Checkpoint | undefined>
  range(collection: AnyCollection, range: IdRange): Promise<RangeDocument[]>
  close(): Promise<void>
}

/** All is read as it stood in one moment (embedded). */
export interface IsolatedSnapshot extends Snapshot {
  readonly isIsolated: true
  /** The stored documents with these ids, in no order; missing ones are left out. */
  getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<RangeDocument<D>[]>
  /** How many documents there are. */
  count(collection: AnyCollection): Promise<number>
}

/** Each document is read as it stands when it is read. */
export interface PassingSnapshot extends Snapshot {
  readonly isIsolated: false
}

/** How far a reader of the log has come, and by which version of its code. */
export interface Checkpoint {
  position: Position
  version: number
}

export interface ReadStore {
  get<D extends object>(collection: Collection<D>, id: string): Promise<D | undefined>
  /** The stored documents with these ids, in no order; missing ones are left out. */
  getMany<D extends object>(collection: Collection<D>, ids: readonly string[]): Promise<Stored<D>[]>
  find<D extends object>(collection: Collection<D>, filter: Filter<D>, options?: FindOptions<D>): Promise<D[]>
  count<D extends object>(collection: Collection<D>, filter: Filter<D>): Promise<number>
  /** The ids of all documents that match, in no order. */
  ids<D extends object>(collection: Collection<D>, filter: Filter<D>): Promise<string[]>
  /** The stored documents with ids in a range, in the order of the ids. */
  range(collection: AnyCollection, range: IdRange): Promise<RangeDocument[]>
  /** Reads that may go on for long; to be closed. */
  snapshot(): Promise<ReadSnapshot>
  /** Makes the collection and its indexes ready; does nothing when they are. */
  prepare(collections: readonly AnyCollection[]): Promise<void>
  /** Empties a collection. */
  clear(collection: AnyCollection): Promise<void>
  /** How far the reader of that name has come; undefined when it never ran. */
  checkpoint(name: string): Promise<Checkpoint | undefined>
  /**
   * Writes changes in their order, then the checkpoints. Embedded: one transaction. MongoDB: a crash
   * may leave changes without their checkpoints, so a reader must be able to see the same event again
   * (a document's position tells). A put never replaces a document that holds a later position.
   */
  apply(changes: readonly Change[], checkpoints: ReadonlyMap<string, Checkpoint>): Promise<void>
  /** Throws `StoreUnavailable` when the store does not answer. */
  ping(): Promise<void>
  close(): Promise<void>
}
