/** The commands that write documents. Each write is complete in the file before it is answered, or not made at all. */
import { BSON } from 'mongodb'
import { badValue, CommandFailure, unsupported } from './failure.ts'
import { projector, sorter } from './match.ts'
import { document, documents, flag, namespace, number, refuse } from './parameters.ts'
import { matching } from './reads.ts'
import { DuplicateKey, type Storage, type Stored } from './storage.ts'
import { isReplacement, updateOf } from './update.ts'
import { type BsonDocument, encode } from './values.ts'

interface Updated {
  matched: number
  modified: number
  /** The document that an upsert inserted. */
  upserted?: BsonDocument
}

export function writeCommands(storage: Storage) {
  /** Runs a list of writes. A write that fails is reported with its index. If `ordered`, it ends the list. */
  function each(command: BsonDocument, list: BsonDocument[], write: (one: BsonDocument, at: number) => void) {
    const ordered = command.ordered === undefined || flag(command, 'ordered')
    const writeErrors: BsonDocument[] = []
    storage.transaction(() => {
      for (const [index, one] of list.entries()) {
        try {
          write(one, index)
        } catch (error) {
          if (!(error instanceof CommandFailure)) throw error
          const details = error instanceof DuplicateKey ? error.details : {}
          writeErrors.push({ index, code: error.code, errmsg: error.message, ...details })
          if (ordered) break
        }
      }
    })
    return writeErrors.length === 0 ? {} : { writeErrors }
  }

  function update(stored: Stored, one: BsonDocument): Updated {
    refuse(one, 'collation', 'arrayFilters', 'c', 'sort')
    const filter = document(one, 'q')
    const make = updateOf(one.u, filter)
    const multi = flag(one, 'multi')
    if (multi && isReplacement(one.u))
      throw badValue('multi update is not supported for replacement-style update')
    const found = matching(stored, filter)
    const targets = multi ? found : found.slice(0, 1)
    if (targets.length === 0 && flag(one, 'upsert')) {
      const upserted = make(undefined)
      storage.insert(stored, upserted)
      return { matched: 0, modified: 0, upserted }
    }
    const modified = targets.filter((target) => replaceIfChanged(stored, target, make(target)))
    return { matched: targets.length, modified: modified.length }
  }

  function replaceIfChanged(stored: Stored, before: BsonDocument, after: BsonDocument): boolean {
    if (Buffer.compare(encode(before), encode(after)) === 0) return false
    storage.replace(stored, after)
    return true
  }

  return {
    insert(command: BsonDocument): BsonDocument {
      const stored = storage.transaction(() => storage.ensure(namespace(command, 'insert')))
      let n = 0
      const errors = each(command, documents(command, 'documents'), (one) => {
        const { _id = new BSON.ObjectId(), ...rest } = one
        storage.insert(stored, { _id, ...rest })
        n += 1
      })
      return { n, ...errors, ok: 1 }
    },
    update(command: BsonDocument): BsonDocument {
      const stored = storage.transaction(() => storage.ensure(namespace(command, 'update')))
      let [n, nModified] = [0, 0]
      const upserted: BsonDocument[] = []
      const errors = each(command, documents(command, 'updates'), (one, index) => {
        const done = update(stored, one)
        n += done.matched
        nModified += done.modified
        if (done.upserted === undefined) return
        n += 1
        upserted.push({ index, _id: done.upserted._id })
      })
      return { n, nModified, ...(upserted.length > 0 ? { upserted } : {}), ...errors, ok: 1 }
    },
    delete(command: BsonDocument): BsonDocument {
      const stored = storage.get(namespace(command, 'delete'))
      let n = 0
      const errors = each(command, documents(command, 'deletes'), (one) => {
        refuse(one, 'collation')
        const found = matching(stored, document(one, 'q'))
        const targets = number(one, 'limit', 0) === 0 ? found : found.slice(0, 1)
        if (stored !== undefined) for (const target of targets) storage.remove(stored, target)
        n += targets.length
      })
      return { n, ...errors, ok: 1 }
    },
    findAndModify(command: BsonDocument): BsonDocument {
      refuse(command, 'collation', 'arrayFilters', 'let')
      const ns = namespace(command, 'findAndModify')
      const query = document(command, 'query')
      const removing = flag(command, 'remove')
      if (removing === (command.update !== undefined))
        throw badValue('Either an update or remove=true must be specified')
      if (removing && flag(command, 'new')) throw unsupported('new with remove')
      const show = projector(document(command, 'fields'))
      const make = removing ? undefined : updateOf(command.update, query)
      return storage.transaction(() => {
        const [target] = matching(storage.get(ns), query).sort(sorter(document(command, 'sort')))
        if (target === undefined) {
          if (make === undefined || !flag(command, 'upsert'))
            return modified(null, { n: 0, updatedExisting: false })
          const made = make(undefined)
          storage.insert(storage.ensure(ns), made)
          const value = flag(command, 'new') ? show(made) : null
          return modified(value, { n: 1, updatedExisting: false, upserted: made._id })
        }
        const stored = storage.ensure(ns)
        if (make === undefined) {
          storage.remove(stored, target)
          return modified(show(target), { n: 1 })
        }
        const after = make(target)
        replaceIfChanged(stored, target, after)
        return modified(show(flag(command, 'new') ? after : target), { n: 1, updatedExisting: true })
      })
    },
  }
}

function modified(value: BsonDocument | null, lastErrorObject: BsonDocument): BsonDocument {
  return { lastErrorObject, value, ok: 1 }
}
