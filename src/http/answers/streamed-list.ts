/** Answers with a JSON array of any length: reads and sends it in parts, and never holds the whole. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { nextSlice } from '../../concurrency/event-loop.ts'
import { schedulingKey } from '../connections/fair-scheduling.ts'
import { jsonOf } from './cached-json.ts'
import { holds } from './json-answer.ts'

/** Estimated memory of such an answer, in bytes: one part and the next row. */
const HELD = 256 * 1024

/**
 * Sends the rows as one array after the list's headers. Reads the next part when the client has taken the last one, and
 * stops when the client disconnects. Parts are created one at a time, scheduled fairly among clients. An error breaks
 * the connection, so that the client doesn't take a part for the whole list.
 */
export function sendStreamedList(reply: FastifyReply, parts: AsyncIterable<readonly object[]>): FastifyReply {
  const text = Readable.from(arrayText(inThisContext(parts), schedulingKey(reply.request)), {
    objectMode: false,
  })
  holds(text, HELD)
  return reply.type('application/json; charset=utf-8').send(text)
}

/** Reads each item in the asynchronous context of the call, whatever event of the connection asks for it. */
function inThisContext<T>(items: AsyncIterable<T>): AsyncIterable<T> {
  const inContext = AsyncLocalStorage.snapshot()
  return {
    [Symbol.asyncIterator]() {
      const iterator = items[Symbol.asyncIterator]()
      return {
        next: () => inContext(() => iterator.next()),
        return: () =>
          inContext(() => iterator.return?.() ?? Promise.resolve({ done: true, value: undefined })),
      }
    },
  }
}

async function* arrayText(parts: AsyncIterable<readonly object[]>, client: string) {
  let before = '['
  // An embedded store answers synchronously, so each part takes its own slice.
  await nextSlice(client)
  for await (const rows of parts) {
    if (rows.length === 0) continue
    yield before + jsonOf(rows).slice(1, -1)
    before = ','
    await nextSlice(client)
  }
  yield before === '[' ? '[]' : ']'
}
