/**
 * Databases and collections. They are searched in memory, and every write is in a SQLite file before it is
 * acknowledged. A write command is one transaction. If the file refuses it, the change in memory is undone.
 */
import { openSqlite, select } from '../../../src/storage/sqlite/sqlite.ts'
import { badValue, CommandFailure, unsupported } from './failure.ts'
import { type BsonDocument, decode, elementsAt, encode, isDocument, keyOf, numberOf } from './values.ts'

const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024

export interface Index {
  name: string
  key: BsonDocument
  unique: boolean
  /** For a unique index: the document of each key. */
  owners: Map<string, string>
}

export interface Stored {
  /** `database.collection` */
  namespace: string
  /** The documents by the key of their `_id`, in the order of insertion. */
  documents: Map<string, BsonDocument>
  /** All indexes except the one on `_id`. */
  indexes: Index[]
}

export interface Storage {
  /** All names, as `database.collection`. */
  namespaces(): string[]
  get(namespace: string): Stored | undefined
  /** The collection. It is created when it is missing. */
  ensure(namespace: string): Stored
  insert(stored: Stored, document: BsonDocument): void
  replace(stored: Stored, document: BsonDocument): void
  remove(stored: Stored, document: BsonDocument): void
  addIndex(stored: Stored, index: BsonDocument): void
  dropIndex(stored: Stored, index: Index): void
  drop(namespace: string): void
  rename(from: string, to: string): void
  /** Runs `work` as one transaction: when this returns, all of its writes are in the file. If it throws, none are. */
  transaction<T>(work: () => T): T
  close(): void
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS collections (namespace TEXT PRIMARY KEY, indexes BLOB NOT NULL);
  CREATE TABLE IF NOT EXISTS documents (
    place INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    bson BLOB NOT NULL,
    UNIQUE (namespace, key)
  );
`

/** Opens or creates the file. With NORMAL, acknowledged writes survive a kill of the process. */
export function openStorage(file: string): Storage {
  const db = openSqlite(file, 'NORMAL')
  db.exec(SCHEMA)
  const statement = {
    putCollection: db.prepare('INSERT OR REPLACE INTO collections (namespace, indexes) VALUES (?, ?)'),
    dropCollection: db.prepare('DELETE FROM collections WHERE namespace = ?'),
    dropDocuments: db.prepare('DELETE FROM documents WHERE namespace = ?'),
    renameCollection: db.prepare('UPDATE collections SET namespace = ? WHERE namespace = ?'),
    renameDocuments: db.prepare('UPDATE documents SET namespace = ? WHERE namespace = ?'),
    insert: db.prepare('INSERT INTO documents (namespace, key, bson) VALUES (?, ?, ?)'),
    replace: db.prepare('UPDATE documents SET bson = ? WHERE namespace = ? AND key = ?'),
    remove: db.prepare('DELETE FROM documents WHERE namespace = ? AND key = ?'),
  }
  const collections = load()
  /** The steps that undo the changes in memory, the latest last. Filled while a transaction runs. */
  let undo: (() => void)[] = []

  function load(): Map<string, Stored> {
    const loaded = new Map<string, Stored>()
    const rows = select<[], { namespace: string; indexes: Uint8Array }>(
      db,
      'SELECT namespace, indexes FROM collections',
    ).all()
    for (const { namespace, indexes } of rows) {
      const specs = Object.values(decode(indexes)).filter(isDocument)
      loaded.set(namespace, { namespace, documents: new Map(), indexes: specs.map(toIndex) })
    }
    const documents = select<[], { namespace: string; bson: Uint8Array }>(
      db,
      'SELECT namespace, bson FROM documents ORDER BY place',
    ).all()
    for (const { namespace, bson } of documents) {
      const document = decode(bson)
      const stored = loaded.get(namespace)
      const key = keyOf(document._id)
      stored?.documents.set(key, document)
      for (const index of stored?.indexes ?? []) {
        for (const entry of entriesOf(index, document)) index.owners.set(entry, key)
      }
    }
    return loaded
  }

  function saveIndexes({ namespace, indexes }: Stored): void {
    const specs = indexes.map(({ name, key, unique }) => ({ name, key, unique }))
    statement.putCollection.run(namespace, encode({ ...specs }))
  }

  function ensure(namespace: string): Stored {
    const known = collections.get(namespace)
    if (known !== undefined) return known
    if (namespace.includes('\0') || namespace.includes('$') || namespace.endsWith('.')) {
      throw new CommandFailure(73, 'InvalidNamespace', `Invalid namespace specified '${namespace}'`)
    }
    const stored: Stored = { namespace, documents: new Map(), indexes: [] }
    collections.set(namespace, stored)
    undo.push(() => collections.delete(namespace))
    saveIndexes(stored)
    return stored
  }

  /** Checks unique keys. @throws CommandFailure 11000 when another document has the same key */
  function checkUnique(stored: Stored, document: BsonDocument): void {
    const key = keyOf(document._id)
    for (const index of stored.indexes) {
      for (const entry of entriesOf(index, document)) {
        const owner = index.owners.get(entry)
        if (owner !== undefined && owner !== key) throw duplicate(stored, index.name, index.key, document)
      }
    }
  }

  /** Stores a document and its index entries; with undefined, removes them. */
  function setInMemory(stored: Stored, key: string, document: BsonDocument | undefined): void {
    const before = stored.documents.get(key)
    for (const index of stored.indexes) {
      if (before !== undefined) for (const entry of entriesOf(index, before)) index.owners.delete(entry)
      if (document !== undefined) for (const entry of entriesOf(index, document)) index.owners.set(entry, key)
    }
    if (document === undefined) stored.documents.delete(key)
    else stored.documents.set(key, document)
  }

  function change(stored: Stored, key: string, document: BsonDocument | undefined): void {
    const before = stored.documents.get(key)
    setInMemory(stored, key, document)
    undo.push(() => setInMemory(stored, key, before))
  }

  function drop(namespace: string): void {
    const stored = collections.get(namespace)
    if (stored === undefined) return
    collections.delete(namespace)
    undo.push(() => collections.set(namespace, stored))
    statement.dropCollection.run(namespace)
    statement.dropDocuments.run(namespace)
  }

  function setIndexes(stored: Stored, indexes: Index[]): void {
    const before = stored.indexes
    stored.indexes = indexes
    undo.push(() => {
      stored.indexes = before
    })
    saveIndexes(stored)
  }

  return {
    namespaces: () => [...collections.keys()].sort(),
    get: (namespace) => collections.get(namespace),
    ensure,
    insert(stored, document) {
      const bson = encodeBounded(document)
      const key = keyOf(document._id)
      if (stored.documents.has(key)) throw duplicate(stored, '_id_', { _id: 1 }, document)
      checkUnique(stored, document)
      statement.insert.run(stored.namespace, key, bson)
      change(stored, key, decode(bson))
    },
    replace(stored, document) {
      const bson = encodeBounded(document)
      const key = keyOf(document._id)
      checkUnique(stored, document)
      statement.replace.run(bson, stored.namespace, key)
      change(stored, key, decode(bson))
    },
    remove(stored, document) {
      const key = keyOf(document._id)
      statement.remove.run(stored.namespace, key)
      change(stored, key, undefined)
    },
    addIndex(stored, spec) {
      const index = toIndex(spec)
      for (const [key, document] of stored.documents) {
        for (const entry of entriesOf(index, document)) {
          const owner = index.owners.get(entry)
          if (owner !== undefined && owner !== key) throw duplicate(stored, index.name, index.key, document)
          index.owners.set(entry, key)
        }
      }
      setIndexes(stored, [...stored.indexes, index])
    },
    dropIndex(stored, index) {
      setIndexes(
        stored,
        stored.indexes.filter((other) => other !== index),
      )
    },
    drop,
    rename(from, to) {
      const stored = collections.get(from)
      if (stored === undefined) return
      drop(to)
      statement.renameCollection.run(to, from)
      statement.renameDocuments.run(to, from)
      collections.delete(from)
      collections.set(to, { ...stored, namespace: to })
      undo.push(() => {
        collections.delete(to)
        collections.set(from, stored)
      })
    },
    transaction(work) {
      undo = []
      db.exec('BEGIN IMMEDIATE')
      try {
        const result = work()
        db.exec('COMMIT')
        return result
      } catch (error) {
        if (db.isTransaction) db.exec('ROLLBACK')
        for (const back of undo.reverse()) back()
        throw error
      }
    },
    close: () => db.close(),
  }
}

const INDEX_OPTIONS = new Set(['v', 'key', 'name', 'unique', 'background', 'ns'])

function toIndex(spec: BsonDocument): Index {
  const { key, name, unique = false } = spec
  if (!isDocument(key) || Object.keys(key).length === 0) throw badValue('an index needs a key')
  if (typeof name !== 'string' || name === '') throw badValue('an index needs a name')
  for (const option of Object.keys(spec)) {
    if (!INDEX_OPTIONS.has(option)) throw unsupported(`the index option ${option}`)
  }
  for (const [field, kind] of Object.entries(key)) {
    if (numberOf(kind) === undefined) throw unsupported(`an index of the kind ${String(kind)} on ${field}`)
  }
  return { name, key, unique: unique === true || numberOf(unique) === 1, owners: new Map() }
}

/** The keys of a document in a unique index. An array has one key per element. */
function entriesOf(index: Index, document: BsonDocument): Set<string> {
  if (!index.unique) return new Set()
  const combinations = Object.keys(index.key).reduce(
    (soFar: string[][], field) => {
      const keys = elementsAt(document, field).map(keyOf)
      return soFar.flatMap((combination) => keys.map((key) => [...combination, key]))
    },
    [[]],
  )
  return new Set(combinations.map((combination) => JSON.stringify(combination)))
}

function encodeBounded(document: BsonDocument): Uint8Array {
  const id = document._id
  if (id === undefined || Array.isArray(id)) {
    throw new CommandFailure(53, 'InvalidIdField', "The '_id' value cannot be missing or of type array")
  }
  const bson = encode(document)
  if (bson.length > MAX_DOCUMENT_BYTES) {
    throw new CommandFailure(
      10334,
      'BSONObjectTooLarge',
      `object to insert too large. size in bytes: ${bson.length}, max size: ${MAX_DOCUMENT_BYTES}`,
    )
  }
  return bson
}

/** MongoDB's error for a duplicate key, with its details for the client. */
export class DuplicateKey extends CommandFailure {
  readonly details: BsonDocument

  constructor(message: string, details: BsonDocument) {
    super(11000, 'DuplicateKey', message)
    this.details = details
  }
}

function duplicate(
  stored: Stored,
  name: string,
  pattern: BsonDocument,
  document: BsonDocument,
): DuplicateKey {
  const value = Object.fromEntries(
    Object.keys(pattern).map((field) => [field, elementsAt(document, field)[0] ?? null]),
  )
  const shown = Object.keys(pattern)
    .map((field) => `${field}: ${JSON.stringify(value[field])}`)
    .join(', ')
  return new DuplicateKey(
    `E11000 duplicate key error collection: ${stored.namespace} index: ${name} dup key: { ${shown} }`,
    { keyPattern: pattern, keyValue: value },
  )
}
