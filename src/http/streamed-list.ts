/** Answers with a JSON array of any length: reads and sends it in parts, and never holds all of it. */
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'

/**
 * Sends the rows as one array; `sendOnePage` sends the headers of such a list. Reads the next part when the client has
 * taken the part before it, and stops when the client goes away. An error in the middle breaks the connection, so that
 * the client doesn't take a part for the whole list.
 */
export function sendStreamedList(reply: FastifyReply, parts: AsyncIterable<readonly object[]>): FastifyReply {
  const text = Readable.from(arrayText(parts), { objectMode: false })
  return reply.type('application/json; charset=utf-8').send(text)
}

async function* arrayText(parts: AsyncIterable<readonly object[]>) {
  let before = '['
  for await (const rows of parts) {
    if (rows.length === 0) continue
    yield before + JSON.stringify(rows).slice(1, -1)
    before = ','
    // An embedded store answers synchronously. Let other requests run before the next part.
    await nextTurn()
  }
  yield before === '[' ? '[]' : ']'
}
