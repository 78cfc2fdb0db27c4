/** The commands about databases, collections and indexes. */
import type { Cursors } from './cursors.ts'
import { CommandFailure } from './failure.ts'
import { matcher } from './match.ts'
import { document, documents, flag, namespace, refuse, text } from './parameters.ts'
import { batchSizeOf, cursorReply } from './reads.ts'
import type { Index, Storage, Stored } from './storage.ts'
import { type BsonDocument, encode, isDocument, keyOf } from './values.ts'

export function catalogueCommands(storage: Storage, cursors: Cursors) {
  function existing(ns: string): Stored {
    const stored = storage.get(ns)
    if (stored === undefined) throw new CommandFailure(26, 'NamespaceNotFound', `ns does not exist: ${ns}`)
    return stored
  }

  function namesIn(database: string): string[] {
    const prefix = `${database}.`
    return storage
      .namespaces()
      .filter((ns) => ns.startsWith(prefix))
      .map((ns) => ns.slice(prefix.length))
  }

  /** Returns false when the same index already exists. */
  function addIndex(stored: Stored, spec: BsonDocument): boolean {
    const sameName = stored.indexes.find((index) => index.name === spec.name)
    const sameKey = stored.indexes.find((index) => sameIndexKey(index.key, spec.key))
    if (isDocument(spec.key) && sameIndexKey({ _id: 1 }, spec.key)) return false
    if (sameName !== undefined && sameName === sameKey && sameName.unique === flag(spec, 'unique'))
      return false
    if (sameName !== undefined) {
      throw new CommandFailure(86, 'IndexKeySpecsConflict', `An existing index has the name ${sameName.name}`)
    }
    if (sameKey !== undefined) {
      const message = `Index already exists with a different name: ${sameKey.name}`
      throw new CommandFailure(85, 'IndexOptionsConflict', message)
    }
    storage.addIndex(stored, spec)
    return true
  }

  function indexesNamed(stored: Stored, which: unknown): Index[] {
    if (which === '*') return stored.indexes
    const wanted = Array.isArray(which) ? which : [which]
    return wanted.map((want) => {
      if (want === '_id_') throw new CommandFailure(72, 'InvalidOptions', 'cannot drop _id index')
      const index = stored.indexes.find(({ name, key }) => name === want || sameIndexKey(key, want))
      if (index !== undefined) return index
      const shown = typeof want === 'string' ? `with name [${want}]` : 'with this key'
      throw new CommandFailure(27, 'IndexNotFound', `index not found ${shown}`)
    })
  }

  return {
    create(command: BsonDocument): BsonDocument {
      refuse(command, 'capped', 'timeseries', 'viewOn', 'validator', 'collation', 'clusteredIndex')
      const ns = namespace(command, 'create')
      if (storage.get(ns) !== undefined) {
        throw new CommandFailure(48, 'NamespaceExists', `Collection ${ns} already exists.`)
      }
      storage.transaction(() => storage.ensure(ns))
      return { ok: 1 }
    },
    createIndexes(command: BsonDocument): BsonDocument {
      const ns = namespace(command, 'createIndexes')
      const created = storage.get(ns) === undefined
      return storage.transaction(() => {
        const stored = storage.ensure(ns)
        const before = stored.indexes.length + 1
        const added = documents(command, 'indexes').filter((spec) => addIndex(stored, spec))
        const note = added.length === 0 ? { note: 'all indexes already exist' } : {}
        return {
          numIndexesBefore: before,
          numIndexesAfter: before + added.length,
          createdCollectionAutomatically: created,
          ...note,
          ok: 1,
        }
      })
    },
    listIndexes(command: BsonDocument): BsonDocument {
      const ns = namespace(command, 'listIndexes')
      const own = existing(ns).indexes.map(({ name, key, unique }) => ({
        v: 2,
        key,
        name,
        ...(unique ? { unique } : {}),
      }))
      const all = [{ v: 2, key: { _id: 1 }, name: '_id_' }, ...own]
      return cursorReply(cursors.open(ns, all, batchSizeOf(document(command, 'cursor'))), 'firstBatch')
    },
    dropIndexes(command: BsonDocument): BsonDocument {
      const stored = existing(namespace(command, 'dropIndexes'))
      const before = stored.indexes.length + 1
      storage.transaction(() => {
        for (const index of indexesNamed(stored, command.index)) storage.dropIndex(stored, index)
      })
      return { nIndexesWas: before, ok: 1 }
    },
    listCollections(command: BsonDocument): BsonDocument {
      const database = text(command, '$db')
      const nameOnly = flag(command, 'nameOnly')
      const all = namesIn(database).map((name) => ({
        name,
        type: 'collection',
        ...(nameOnly
          ? {}
          : { options: {}, info: { readOnly: false }, idIndex: { v: 2, key: { _id: 1 }, name: '_id_' } }),
      }))
      const wanted = all.filter(matcher(document(command, 'filter')))
      const size = batchSizeOf(document(command, 'cursor'))
      return cursorReply(cursors.open(`${database}.$cmd.listCollections`, wanted, size), 'firstBatch')
    },
    listDatabases(command: BsonDocument): BsonDocument {
      const names = new Set(storage.namespaces().map((ns) => ns.slice(0, ns.indexOf('.'))))
      if (flag(command, 'nameOnly')) return { databases: [...names].map((name) => ({ name })), ok: 1 }
      const databases = [...names].map((name) => {
        const stored = namesIn(name).map((collection) => existing(`${name}.${collection}`))
        const sizeOnDisk = stored
          .flatMap(({ documents }) => [...documents.values()])
          .reduce((bytes, one) => bytes + encode(one).length, 0)
        return { name, sizeOnDisk, empty: false }
      })
      const totalSize = databases.reduce((bytes, { sizeOnDisk }) => bytes + sizeOnDisk, 0)
      const wanted = databases.filter(matcher(document(command, 'filter')))
      return { databases: wanted, totalSize, ok: 1 }
    },
    drop(command: BsonDocument): BsonDocument {
      const ns = namespace(command, 'drop')
      if (storage.get(ns) === undefined) return { ok: 1 }
      storage.transaction(() => storage.drop(ns))
      return { ns, ok: 1 }
    },
    dropDatabase(command: BsonDocument): BsonDocument {
      const database = text(command, '$db')
      storage.transaction(() => {
        for (const name of namesIn(database)) storage.drop(`${database}.${name}`)
      })
      return { dropped: database, ok: 1 }
    },
    renameCollection(command: BsonDocument): BsonDocument {
      const [from, to] = [text(command, 'renameCollection'), text(command, 'to')]
      existing(from)
      if (from === to) throw new CommandFailure(20, 'IllegalOperation', "Can't rename a collection to itself")
      if (storage.get(to) !== undefined && !flag(command, 'dropTarget')) {
        throw new CommandFailure(48, 'NamespaceExists', 'target namespace exists')
      }
      storage.transaction(() => storage.rename(from, to))
      return { ok: 1 }
    },
  }
}

/** Whether two indexes have the same fields in the same order, which `keyOf` keeps. */
function sameIndexKey(key: BsonDocument, other: unknown): boolean {
  return isDocument(other) && keyOf(key) === keyOf(other)
}
