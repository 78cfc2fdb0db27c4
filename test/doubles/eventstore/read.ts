/** The method Read of the Streams service: reads and subscriptions, of one stream and of $all. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import type { handleServerStreamingCall, ServerWritableStream } from '@grpc/grpc-js'
import { type EventStore, LOG_START } from '../../../src/events/store/event-store.ts'
import type { Gate } from './admission.ts'
import { NotARecord, offsetOf, requireRecord, type Scavenged } from './positions.ts'
import {
  ConsumerTooSlow,
  NotSupported,
  type RecordedServerEvent,
  StreamDeleted,
  type Streams,
  toServerEvent,
} from './streams.ts'
import { fromUint64, InvalidArgument, streamName, toReadEvent, toStatus, toStreamIdentifier } from './wire.ts'

/** The number of events that EventStoreDB reads in one step. Also the default window of a filtered subscription. */
const PAGE = 32

/** A live subscription holds two buffers of 32 events. When more come at once, EventStoreDB drops it. */
const LIVE_BUFFER = 64

const MOST = Number.MAX_SAFE_INTEGER

type Call = ServerWritableStream<streamsPb.ReadReq, streamsPb.ReadResp>

interface Reading {
  store: EventStore
  streams: Streams
  options: streamsPb.ReadReq.Options
  signal: AbortSignal
  scavenged: Scavenged
  drops(): boolean
  reportsEnd(): boolean
  send(response: streamsPb.ReadResp): Promise<void>
  sendEvent(event: RecordedServerEvent): Promise<void>
}

/**
 * `stopping` aborts when the server is closed, and ends the subscriptions. `sent` counts the events sent to clients,
 * and the costs of filters.
 */
export function read(
  store: EventStore,
  streams: Streams,
  gate: Gate,
  stopping: AbortSignal,
  sent: { events: number; expressions: number },
  scavenged: Scavenged,
): handleServerStreamingCall<streamsPb.ReadReq, streamsPb.ReadResp> {
  return async (call) => {
    const gone = new AbortController()
    call.on('cancelled', () => gone.abort())
    call.on('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, stopping])
    try {
      const options = call.request.getOptions()
      if (options === undefined) throw new InvalidArgument('the options of the read are missing')
      const stream = options.hasAll() ? '$all' : streamName(options.getStream()?.getStreamIdentifier())
      gate.admit(call.metadata, 'read', stream)
      const how = { structured: options.getUuidOption()?.hasStructured() ?? false, ofAll: options.hasAll() }
      const filter = options.getFilter()
      const regex = filter?.getEventType()?.getRegex() ?? filter?.getStreamIdentifier()?.getRegex() ?? ''
      sent.expressions += regex.length
      const send = (response: streamsPb.ReadResp) => sendSlowly(call, response, signal)
      const sendEvent = (event: RecordedServerEvent) => {
        if (event.type === '$>' && options.getResolveLinks()) throw new NotSupported('resolving links')
        sent.events += 1
        return send(toReadEvent(event, how))
      }
      await answer({
        store,
        streams,
        options,
        signal,
        scavenged,
        drops: gate.drops,
        reportsEnd: gate.reportsEnd,
        send,
        sendEvent,
      })
      call.end()
    } catch (error) {
      if (!signal.aborted) call.emit('error', toStatus(error))
    }
  }
}

/** Sends events no faster than the client reads them. */
async function sendSlowly(call: Call, response: streamsPb.ReadResp, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (!call.write(response)) await once(call, 'drain', { signal })
}

function answer(reading: Reading): Promise<void> {
  const { options } = reading
  if (options.hasSubscription()) {
    return options.hasAll() ? subscribeToAll(reading) : subscribeToStream(reading)
  }
  return options.hasAll() ? readAll(reading) : readStream(reading)
}

function backwards(options: streamsPb.ReadReq.Options): boolean {
  return options.getReadDirection() === streamsPb.ReadReq.Options.ReadDirection.BACKWARDS
}

/** The start of a request for $all: a boundary of the log, or the number of a record. */
async function beginning(
  store: EventStore,
  options: streamsPb.ReadReq.Options,
  scavenged: Scavenged,
): Promise<'start' | 'end' | number> {
  const all = options.getAll()
  if (all?.hasEnd()) return 'end'
  const offset = fromUint64(all?.getPosition()?.getCommitPosition() ?? '0')
  return all?.hasStart() || offset === 0
    ? 'start'
    : requireRecord(offset, await store.lastPosition(), backwards(options), scavenged)
}

async function readAll({ store, options, scavenged, sendEvent }: Reading): Promise<void> {
  const begin = await beginning(store, options, scavenged)
  const back = backwards(options)
  // In EventStoreDB a forwards read begins with the event at the position, and a backwards read with the event before
  // it. The port leaves out the event at the position in both directions.
  const from = begin === 'end' ? MOST : begin === 'start' ? LOG_START : back ? begin : begin - 1
  const matches = filterIn(options)
  let left = fromUint64(options.getCount())
  if (left === 0) return
  for await (const recorded of store.readAll({ from, direction: back ? 'backwards' : 'forwards' })) {
    const event = toServerEvent(recorded)
    if (scavenged.has(recorded.position) || !matches(event)) continue
    await sendEvent(event)
    left -= 1
    if (left === 0) return
  }
}

async function readStream({ store, streams, options, send, sendEvent }: Reading): Promise<void> {
  const stream = streamName(options.getStream()?.getStreamIdentifier())
  const { last, first, tombstoned, softDeleted } = await streams.readable(stream)
  if (tombstoned) throw new StreamDeleted(stream)
  if (last === null || softDeleted) {
    const missing = new streamsPb.ReadResp.StreamNotFound().setStreamIdentifier(toStreamIdentifier(stream))
    await send(new streamsPb.ReadResp().setStreamNotFound(missing))
    return
  }
  const where = options.getStream()
  const back = backwards(options)
  const asked = where?.hasEnd() ? MOST : where?.hasStart() ? 0 : fromUint64(where?.getRevision() ?? '0')
  const from = back ? Math.min(asked, last) : Math.max(asked, first)
  const maxCount = fromUint64(options.getCount())
  for await (const recorded of store.readStream(stream, {
    from,
    maxCount,
    direction: back ? 'backwards' : 'forwards',
  })) {
    if (recorded.revision < first || recorded.revision > last) break
    await sendEvent(toServerEvent(recorded))
  }
  if ((options.getControlOption()?.getCompatibility() ?? 0) < 1) return
  if (back) await send(new streamsPb.ReadResp().setFirstStreamPosition(String(first)))
  else await send(new streamsPb.ReadResp().setLastStreamPosition(String(last)))
}

function confirmation(): streamsPb.ReadResp {
  const confirmed = new streamsPb.ReadResp.SubscriptionConfirmation().setSubscriptionId(randomUUID())
  return new streamsPb.ReadResp().setConfirmation(confirmed)
}

function caughtUp(): streamsPb.ReadResp {
  return new streamsPb.ReadResp().setCaughtUp(new streamsPb.ReadResp.CaughtUp())
}

async function subscribeToAll({
  store,
  options,
  signal,
  scavenged,
  drops,
  reportsEnd,
  send,
  sendEvent,
}: Reading): Promise<void> {
  const begin = await beginning(store, options, scavenged).catch((error: unknown) => {
    if (error instanceof NotARecord) throw new Error('Exception was thrown by handler.')
    throw error
  })
  const head = await store.lastPosition()
  const filter = options.getFilter()
  const matches = filterIn(options)
  const window = filter?.getMax() || PAGE
  const interval = (filter?.getCheckpointintervalmultiplier() || 1) * window
  let sinceCheckpoint = 0

  async function checkpoint(at: number): Promise<void> {
    const reached = new streamsPb.ReadResp.Checkpoint()
    reached.setCommitPosition(String(at)).setPreparePosition(String(at))
    await send(new streamsPb.ReadResp().setCheckpoint(reached))
  }

  /**
   * Sends the events of the log up to `head`. As in EventStoreDB, a checkpoint comes only after a full page, and names
   * the last event that was sent of the page, or else the beginning of the page. None comes at the end of the log.
   */
  async function catchUp(after: number): Promise<void> {
    let page = { begin: offsetOf(after + 1), considered: 0, sent: 0 }
    for await (const recorded of store.readAll({ from: after })) {
      if (recorded.position > head) break
      if (scavenged.has(recorded.position)) continue
      const event = toServerEvent(recorded)
      page.considered += 1
      if (matches(event)) {
        await sendEvent(event)
        page.begin = event.position
        page.sent += 1
      }
      if (page.considered < window && page.sent < PAGE) continue
      sinceCheckpoint += page.considered
      if (filter !== undefined && sinceCheckpoint >= interval) {
        sinceCheckpoint %= interval
        await checkpoint(page.begin)
      }
      page = { begin: offsetOf(recorded.position + 1), considered: 0, sent: 0 }
    }
    sinceCheckpoint += page.considered
  }

  await send(confirmation())
  if (drops()) throw new ConsumerTooSlow()
  // A position beyond the end of the log gives every later append.
  let after = begin === 'end' ? head : begin === 'start' ? LOG_START : Math.min(begin, head)
  // As in EventStoreDB: when a scavenge has removed the event at the position, the event after it is left out.
  while (after < head && scavenged.has(after)) after += 1
  await catchUp(after)
  if (reportsEnd()) await send(caughtUp())
  for await (const batch of store.subscribe({ after: Math.max(after, head), signal })) {
    let held = 0
    for (const recorded of batch) {
      const event = toServerEvent(recorded)
      if (matches(event)) {
        held += 1
        if (held > LIVE_BUFFER) throw new ConsumerTooSlow()
        await sendEvent(event)
      }
      sinceCheckpoint += 1
      if (filter === undefined || sinceCheckpoint < interval) continue
      sinceCheckpoint = 0
      await checkpoint(event.position)
    }
  }
}

async function subscribeToStream({
  store,
  streams,
  options,
  signal,
  send,
  sendEvent,
}: Reading): Promise<void> {
  const where = options.getStream()
  const stream = streamName(where?.getStreamIdentifier())
  // Get the position before the stream is read. Events that are appended meanwhile are then seen twice, not missed.
  const head = await store.lastPosition()
  const { last, first, tombstoned } = await streams.readable(stream)
  if (tombstoned) throw new StreamDeleted(stream)
  const asked = where?.hasEnd()
    ? (last ?? -1)
    : where?.hasStart()
      ? -1
      : fromUint64(where?.getRevision() ?? '0')
  let seen = Math.max(asked, first - 1)
  await send(confirmation())
  for await (const recorded of store.readStream(stream, { from: seen + 1 })) {
    if (signal.aborted) return
    await sendEvent(toServerEvent(recorded))
    seen = recorded.revision
  }
  await send(caughtUp())
  for await (const batch of store.subscribe({ after: head, signal })) {
    for (const recorded of batch) {
      if (recorded.stream !== stream || recorded.revision <= seen) continue
      const event = toServerEvent(recorded)
      if (event.type === '$streamDeleted') throw new StreamDeleted(stream)
      await sendEvent(event)
      seen = recorded.revision
    }
  }
}

/** The filter of the request. Without a filter every event matches. */
function filterIn(options: streamsPb.ReadReq.Options): (event: RecordedServerEvent) => boolean {
  const filter = options.getFilter()
  if (filter === undefined) return () => true
  const byStream = filter.getStreamIdentifier()
  const expression = byStream ?? filter.getEventType()
  if (expression === undefined)
    throw new InvalidArgument('the filter needs a stream identifier or an event type')
  const regex = expression.getRegex() === '' ? undefined : regexOf(expression.getRegex())
  const prefixes = expression.getPrefixList()
  return (event) => {
    const subject = byStream === undefined ? event.type : event.stream
    return regex?.test(subject) ?? prefixes.some((prefix) => subject.startsWith(prefix))
  }
}

function regexOf(source: string): RegExp {
  try {
    return new RegExp(source, 'u')
  } catch (error) {
    throw new InvalidArgument(`the filter's regex: ${error instanceof Error ? error.message : error}`)
  }
}
