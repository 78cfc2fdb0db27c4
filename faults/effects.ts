/**
 * Loaded into a server before its own code (`node --import`): kills the process right after the effect that the file
 * `FAULTS_POINT` names, so that a run can stop a server between any two steps. The product does not contain this code:
 * it wraps the libraries that the product calls.
 *
 * The file holds a regular expression for the text of an effect. The first process that renames the file has reached
 * the point, so only one process is killed, even if several nodes share the file. If `FAULTS_EFFECTS` names a file,
 * each effect is appended to it as a line of JSON.
 */
import childProcess from 'node:child_process'
import { appendFileSync, promises as files, readFileSync, renameSync } from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'

const { FAULTS_POINT: file, FAULTS_EFFECTS: all } = process.env

/** Kills this process if the effect matches the point. */
function after(effect: string): void {
  if (all !== undefined) appendFileSync(all, `${JSON.stringify(effect)}\n`)
  if (file === undefined) return
  try {
    if (!new RegExp(readFileSync(file, 'utf8')).test(effect)) return
    renameSync(file, `${file}.reached`)
  } catch {
    // No point is set, or another process has reached it.
    return
  }
  process.kill(process.pid, 'SIGKILL')
}

type Callable = (this: unknown, ...args: unknown[]) => unknown

/** Wraps a method. The wrapper gets the original method, and calls it. */
function wrap(
  owner: object,
  name: string,
  around: (method: Callable, self: unknown, args: unknown[]) => unknown,
) {
  const method: unknown = Reflect.get(owner, name)
  if (typeof method !== 'function') return
  const called: Callable = function (...args) {
    return Reflect.apply(method, this, args)
  }
  Reflect.set(owner, name, function (this: unknown, ...args: unknown[]) {
    return around(called, this, args)
  })
}

/** Wraps a method that returns a promise; the effect happens when it has resolved. */
function watch(owner: object, name: string, effectOf: (args: readonly unknown[], self: unknown) => string) {
  wrap(owner, name, async (method, self, args) => {
    const result = await method.apply(self, args)
    after(effectOf(args, self))
    return result
  })
}

const part = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined

// Effects in the data directory. A marker of the push journal distinguishes a push from other moves of refs.
const writtenFor = new Map<unknown, string>()
watch(files, 'writeFile', ([path, content]) => {
  if (/\/pushes\//.test(String(path))) writtenFor.set(path, String(content))
  return `write ${path} ${writtenFor.get(path) ?? ''}`.trimEnd()
})
watch(files, 'rename', ([from, to]) => `rename ${from} ${to}`)
watch(files, 'link', ([from, to]) => `link ${from} ${to}`)
watch(files, 'rm', ([path]) => {
  const content = writtenFor.get(path) ?? ''
  writtenFor.delete(path)
  return `remove ${path} ${content}`.trimEnd()
})

// git: the server asks a launcher, a process with a channel, to start programs, and gets a message when they end.
const words = new Map<unknown, string>()
wrap(childProcess, 'spawn', (method, self, args) => {
  const child = method.apply(self, args)
  if (typeof child !== 'object' || child === null || part(child, 'channel') === undefined) return child
  wrap(child, 'send', (send, own, [message, ...rest]) => {
    const args = part(message, 'args')
    const started = [part(message, 'program'), ...(Array.isArray(args) ? args : [])].map(String)
    words.set(part(message, 'id'), started.slice(started.indexOf('git')).join(' '))
    return send.apply(own, [message, ...rest])
  })
  wrap(child, 'emit', (emit, own, args) => {
    const [event, message] = args
    const id = part(message, 'id')
    if (event === 'message' && part(message, 'pid') !== undefined) after(`start ${words.get(id)}`)
    if (event === 'message' && part(part(message, 'exit'), 'code') === 0) {
      after(`${words.get(id)} ${inputs.get(Number(id)) ?? ''}`)
    }
    return emit.apply(own, args)
  })
  return child
})

// The ref commands for git. A stream to git begins with the process number and its own number.
const inputs = new Map<number, string>()
const streams = new WeakMap<object, number>()
wrap(Socket.prototype, 'read', (method, self, args) => {
  const result = method.apply(self, args)
  const head = args[0] === 13 && Buffer.isBuffer(result) ? result.toString('latin1') : ''
  if (/^\d{12}0$/.test(head) && typeof self === 'object' && self !== null) {
    streams.set(self, Number(head.slice(0, -1)))
  }
  return result
})
wrap(Socket.prototype, 'write', (method, self, args) => {
  const id = typeof self === 'object' && self !== null ? streams.get(self) : undefined
  const text = id === undefined ? '' : String(args[0])
  const isOfRefs = id !== undefined && /^(update|delete|verify) /.test(text)
  if (isOfRefs) inputs.set(id, text.replaceAll('\0', ' '))
  const result = method.apply(self, args)
  // git has received the commands, and continues without the server.
  if (isOfRefs) after(`tell git update-ref ${inputs.get(id)}`)
  if (args[0] === 'yes\n') after('answer the hook')
  return result
})

syncBuiltinESMExports()

const require = createRequire(import.meta.url)

/** The appended events: type, stream, reason of a move or state of a status, and whether another event caused them. */
function appended(type: unknown, stream: unknown, data: unknown, metadata: unknown): string {
  const what = part(data, 'cause') ?? part(data, 'state') ?? ''
  const isOfProcess = part(metadata, 'causationId') !== part(metadata, 'correlationId')
  return `append ${type} ${stream} ${what}${isOfProcess ? ' follows' : ''}`.trimEnd()
}

// The log in EventStoreDB: requests of one call, each with an id that its answer repeats.
const appends = new Map<string, string[]>()
wrap(streamsPb.BatchAppendReq.prototype, 'serializeBinary', (method, self, args) => {
  if (self instanceof streamsPb.BatchAppendReq) {
    const stream = Buffer.from(
      self.getOptions()?.getStreamIdentifier()?.getStreamName_asU8() ?? [],
    ).toString()
    const effects = self.getProposedMessagesList().map((message) => {
      const data: unknown = JSON.parse(Buffer.from(message.getData_asU8()).toString())
      const metadata: unknown = JSON.parse(Buffer.from(message.getCustomMetadata_asU8()).toString())
      return appended(message.getMetadataMap().get('type'), stream, data, metadata)
    })
    appends.set(self.getCorrelationId()?.getString() ?? '', effects)
  }
  return method.apply(self, args)
})
wrap(streamsPb.BatchAppendResp, 'deserializeBinary', (method, self, args) => {
  const response = method.apply(self, args)
  if (response instanceof streamsPb.BatchAppendResp) {
    const id = response.getCorrelationId()?.getString() ?? ''
    if (response.hasSuccess()) for (const effect of appends.get(id) ?? []) after(effect)
    appends.delete(id)
  }
  return response
})

// Documents in MongoDB.
const { Collection }: { Collection: { prototype: object } } = require('mongodb')
const nameOf = (collection: unknown) => part(collection, 'collectionName')
for (const name of ['insertOne', 'updateOne', 'replaceOne', 'findOneAndUpdate', 'deleteOne']) {
  watch(Collection.prototype, name, ([filter], self) => `document ${nameOf(self)} ${part(filter, '_id')}`)
}
watch(Collection.prototype, 'bulkWrite', ([operations], self) => {
  const ids = (Array.isArray(operations) ? operations : []).flatMap((operation: object) =>
    Object.values(operation).map((one) => part(part(one, 'filter'), '_id')),
  )
  return `documents ${nameOf(self)} ${ids.join(' ')}`
})

// The embedded log and documents: threads write them, and answer each transaction with the number of its commit.
const statements = new Map<unknown, string[]>()
/** By thread and request id. */
const commits = new Map<unknown, Map<unknown, string[]>>()
wrap(Worker.prototype, 'postMessage', (method, self, args) => {
  noteRequest(self, args[0])
  return method.apply(self, args)
})
function noteRequest(thread: unknown, message: unknown): void {
  const request = part(message, 'request')
  const step = part(request, 'step')
  if (part(step, 'kind') !== 'write') return
  const of = part(request, 'writer')
  const run = part(step, 'statements')
  if (part(step, 'isFirst') === true) statements.set(of, [])
  if (Array.isArray(run)) statements.get(of)?.push(...run.map(effectOf))
  if (part(step, 'isLast') !== true) return
  const ofThread = commits.get(thread) ?? new Map<unknown, string[]>()
  commits.set(thread, ofThread.set(part(message, 'id'), statements.get(of) ?? []))
}
function effectOf(statement: unknown): string {
  const [sql, id, , , , type, data, metadata] = Array.isArray(statement) ? statement : []
  const table = /\b(?:INTO|FROM|UPDATE) "?(\w+)/.exec(String(sql))?.[1]
  if (table === 'events') {
    const parsed: unknown = JSON.parse(String(data))
    return appended(type, streamOf(String(type), parsed), parsed, JSON.parse(String(metadata)))
  }
  return table === 'checkpoints' ? `document ${table} ${id}` : `documents ${table}`
}
/** A row has its stream as a number; the points need the keys of claims. */
const streamOf = (type: string, data: unknown) =>
  type.startsWith('Claim') ? `claim-${part(data, 'key')}` : '-'

wrap(Worker.prototype, 'emit', (method, self, args) => {
  const [event, reply] = args
  const ofThread = commits.get(self)
  const id = part(reply, 'id')
  if (event === 'message' && part(reply, 'message') === undefined) {
    for (const effect of ofThread?.get(id) ?? []) after(effect)
  }
  ofThread?.delete(id)
  return method.apply(self, args)
})
