/** The commands that read documents. */
import { BSON } from 'mongodb'
import type { Batch, Cursors } from './cursors.ts'
import { badValue, CommandFailure, unsupported } from './failure.ts'
import { isOperators, matcher, projector, sorter } from './match.ts'
import { document, documents, flag, namespace, number, refuse, text } from './parameters.ts'
import type { Storage, Stored } from './storage.ts'
import { type BsonDocument, compare, elementsAt, isDocument, keyOf, numberOf, valuesAt } from './values.ts'

/** The documents that match a filter, in their natural order. Uses the ids when the filter names them. */
export function matching(stored: Stored | undefined, filter: BsonDocument): BsonDocument[] {
  const matches = matcher(filter)
  if (stored === undefined) return []
  const ids = idsOf(filter)
  const candidates =
    ids === undefined
      ? [...stored.documents.values()]
      : [...new Set(ids.map(keyOf))]
          .map((key) => stored.documents.get(key))
          .filter((found) => found !== undefined)
  return candidates.filter(matches)
}

function idsOf(filter: BsonDocument): unknown[] | undefined {
  const id = filter._id
  if (id === undefined || id instanceof BSON.BSONRegExp) return undefined
  if (!isOperators(id)) return [id]
  if ('$eq' in id) return [id.$eq]
  const list = id.$in
  return Array.isArray(list) && !list.some((member) => member instanceof BSON.BSONRegExp) ? list : undefined
}

/** The form of every answer with a cursor. */
export function cursorReply({ id, ns, documents }: Batch, batch: 'firstBatch' | 'nextBatch'): BsonDocument {
  return { cursor: { id, ns, [batch]: documents }, ok: 1 }
}

export function batchSizeOf(command: BsonDocument): number | undefined {
  if (command.batchSize === undefined) return undefined
  const size = number(command, 'batchSize', 0)
  if (size < 0) throw badValue('batchSize must not be negative')
  return size
}

export function readCommands(storage: Storage, cursors: Cursors) {
  /** Runs a pipeline over a collection. A filter at its beginning uses the ids that it names. */
  function run(database: string, ns: string, pipeline: BsonDocument[]): BsonDocument[] {
    const [first] = pipeline
    const begins = first !== undefined && isDocument(first.$match) ? first.$match : undefined
    const stages = begins === undefined ? pipeline : pipeline.slice(1)
    return stages.reduce(
      (results: BsonDocument[], one) => {
        if ('$unionWith' in one) return results.concat(union(database, one.$unionWith))
        if ('$lookup' in one) return lookup(database, document(one, '$lookup'), results)
        return stage(results, one)
      },
      matching(storage.get(ns), begins ?? {}),
    )
  }

  function union(database: string, operand: unknown): BsonDocument[] {
    if (typeof operand === 'string') return run(database, `${database}.${operand}`, [])
    if (!isDocument(operand)) throw badValue('$unionWith needs a collection')
    return run(database, `${database}.${text(operand, 'coll')}`, documents(operand, 'pipeline'))
  }

  /** As MongoDB 5.0 and later: equal fields and a pipeline together. */
  function lookup(database: string, operand: BsonDocument, results: BsonDocument[]): BsonDocument[] {
    refuse(operand, 'let')
    const from = `${database}.${text(operand, 'from')}`
    const [local, foreign, as] = [
      text(operand, 'localField'),
      text(operand, 'foreignField'),
      text(operand, 'as'),
    ]
    const pipeline = operand.pipeline === undefined ? [] : documents(operand, 'pipeline')
    const byKey = new Map<string, BsonDocument[]>()
    for (const one of storage.get(from)?.documents.values() ?? []) {
      for (const value of elementsAt(one, foreign)) {
        const same = byKey.get(keyOf(value))
        if (same === undefined) byKey.set(keyOf(value), [one])
        else same.push(one)
      }
    }
    return results.map((result) => {
      const found = new Set(elementsAt(result, local).flatMap((value) => byKey.get(keyOf(value)) ?? []))
      return { ...result, [as]: pipeline.reduce(stage, [...found]) }
    })
  }

  return {
    find(command: BsonDocument): BsonDocument {
      refuse(command, 'collation', 'min', 'max', 'let')
      if (flag(command, 'tailable')) throw unsupported('a tailable cursor')
      const ns = namespace(command, 'find')
      const found = matching(storage.get(ns), document(command, 'filter'))
      const page = cut(sorted(found, document(command, 'sort')), command)
      const results = page.map(projector(document(command, 'projection')))
      const batch = cursors.open(ns, results, batchSizeOf(command), flag(command, 'singleBatch'))
      return cursorReply(batch, 'firstBatch')
    },
    getMore(command: BsonDocument): BsonDocument {
      const id = command.getMore
      if (!(id instanceof BSON.Long)) throw badValue('getMore needs the id of a cursor')
      // For the driver and the server, 0 means the default size.
      const size = batchSizeOf(command) || undefined
      return cursorReply(cursors.next(id.toString(), namespace(command, 'collection'), size), 'nextBatch')
    },
    killCursors(command: BsonDocument): BsonDocument {
      const ids = Array.isArray(command.cursors) ? command.cursors : []
      const killed = ids.filter((id) => cursors.kill(String(id)))
      const missing = ids.filter((id) => !killed.includes(id))
      return { cursorsKilled: killed, cursorsNotFound: missing, cursorsAlive: [], cursorsUnknown: [], ok: 1 }
    },
    count(command: BsonDocument): BsonDocument {
      refuse(command, 'collation')
      const found = matching(storage.get(namespace(command, 'count')), document(command, 'query'))
      return { n: cut(found, command).length, ok: 1 }
    },
    distinct(command: BsonDocument): BsonDocument {
      refuse(command, 'collation')
      const path = text(command, 'key').split('.')
      const found = matching(storage.get(namespace(command, 'distinct')), document(command, 'query'))
      const values = found.flatMap((d) => valuesAt(d, path).flatMap((v) => (Array.isArray(v) ? v : [v])))
      const byKey = new Map(values.map((value) => [keyOf(value), value]))
      return { values: [...byKey.values()].sort(compare), ok: 1 }
    },
    aggregate(command: BsonDocument): BsonDocument {
      refuse(command, 'collation', 'let')
      if (flag(command, 'explain')) throw unsupported('explain')
      const ns = namespace(command, 'aggregate')
      const results = run(text(command, '$db'), ns, documents(command, 'pipeline'))
      const batch = cursors.open(ns, results, batchSizeOf(document(command, 'cursor')))
      return cursorReply(batch, 'firstBatch')
    },
  }
}

function sorted(found: BsonDocument[], sort: BsonDocument): BsonDocument[] {
  return Object.keys(sort).length === 0 ? found : [...found].sort(sorter(sort))
}

/** Applies `skip` and `limit`. A limit of 0 means no limit. */
function cut(found: BsonDocument[], command: BsonDocument): BsonDocument[] {
  const skip = number(command, 'skip', 0)
  const limit = Math.abs(number(command, 'limit', 0))
  if (skip < 0) throw badValue('skip must not be negative')
  return limit === 0 ? found.slice(skip) : found.slice(skip, skip + limit)
}

function stage(results: BsonDocument[], pipelineStage: BsonDocument): BsonDocument[] {
  const [[name, operand] = [], ...others] = Object.entries(pipelineStage)
  if (name === undefined || others.length > 0) {
    throw new CommandFailure(40323, 'Location40323', 'A pipeline stage must have exactly one field')
  }
  switch (name) {
    case '$match':
      return results.filter(matcher(document(pipelineStage, name)))
    case '$sort':
      return sorted(results, document(pipelineStage, name))
    case '$project':
      return project(results, document(pipelineStage, name))
    case '$skip':
      return results.slice(number(pipelineStage, name, 0))
    case '$limit':
      return results.slice(0, number(pipelineStage, name, 0))
    case '$count':
      return results.length === 0 ? [] : [{ [text(pipelineStage, name)]: new BSON.Int32(results.length) }]
    case '$group':
      return group(results, document(pipelineStage, name))
    default:
      throw unsupported(`the stage ${name} of ${JSON.stringify(operand)?.slice(0, 100)}`)
  }
}

/** In an aggregation a projection may also compute fields: a constant, or the value of another field. */
function project(results: BsonDocument[], projection: BsonDocument): BsonDocument[] {
  const computed = Object.entries(projection).filter(([, how]) => isDocument(how) || typeof how === 'string')
  if (computed.length === 0) return results.map(projector(projection))
  const others = Object.fromEntries(
    Object.entries(projection).filter(([name]) => !computed.some(([c]) => c === name)),
  )
  const kept = Object.entries(others).some(([name, how]) => name !== '_id' && flag({ how }, 'how'))
  const rest = projector(kept ? others : { ...others, '': 1 })
  return results.map((result) => ({
    ...rest(result),
    ...Object.fromEntries(
      computed.map(([name, how]) => [name, expression(how, result)]).filter(([, value]) => value !== REMOVE),
    ),
  }))
}

function group(results: BsonDocument[], { _id: by, ...accumulators }: BsonDocument): BsonDocument[] {
  const groups = new Map<string, { id: unknown; members: BsonDocument[] }>()
  for (const result of results) {
    const id = expression(by, result)
    const key = keyOf(id)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, { id, members: [result] })
    else known.members.push(result)
  }
  return [...groups.values()].map(({ id, members }) => ({
    _id: id,
    ...Object.fromEntries(
      Object.entries(accumulators).map(([name, accumulator]) => [
        name,
        accumulate(name, accumulator, members),
      ]),
    ),
  }))
}

function accumulate(name: string, accumulator: unknown, members: BsonDocument[]): number {
  if (isDocument(accumulator) && '$count' in accumulator) return members.length
  if (!isDocument(accumulator) || !('$sum' in accumulator)) throw unsupported(`the accumulator of ${name}`)
  return members.reduce((sum, member) => sum + (numberOf(expression(accumulator.$sum, member)) ?? 0), 0)
}

/** The value of `$$REMOVE`: a field that gets it is left out. */
const REMOVE = Symbol('$$REMOVE')

/** A constant, the value of a field `$path`, or what one of a few operators computes. */
function expression(of: unknown, from: BsonDocument): unknown {
  if (isDocument(of)) return computedBy(of, from)
  if (of === '$$REMOVE') return REMOVE
  if (typeof of !== 'string' || !of.startsWith('$')) return of ?? null
  if (of.startsWith('$$')) throw unsupported(`the variable ${of}`)
  return valuesAt(from, of.slice(1).split('.'))[0] ?? null
}

function computedBy(operation: BsonDocument, from: BsonDocument): unknown {
  const [[name, operands] = ['', undefined], ...others] = Object.entries(operation)
  if (others.length > 0) throw unsupported('a computed document')
  const [first, second, third, ...rest] = Array.isArray(operands) ? operands : [operands]
  switch (name) {
    case '$literal':
      return operands
    case '$gt':
      if (second === undefined || third !== undefined) throw badValue('$gt takes exactly 2 arguments')
      return compare(expression(first, from), expression(second, from)) > 0
    case '$cond': {
      if (third === undefined || rest.length > 0) throw badValue('$cond takes exactly 3 arguments')
      const test = expression(first, from)
      const isFalse = test === false || test === null || numberOf(test) === 0
      return expression(isFalse ? third : second, from)
    }
    case '$bsonSize': {
      const value = expression(first, from)
      if (value === null) return null
      if (!isDocument(value)) throw badValue('$bsonSize requires a document input')
      return new BSON.Int32(BSON.calculateObjectSize(value))
    }
    default:
      throw unsupported(`the operator ${name}`)
  }
}
