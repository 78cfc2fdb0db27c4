/** A JSON array of any length as an answer: sent while it is read, a part at a time, and never held whole. */
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'

/**
 * Sends the rows as one array. The next part is read when the client has taken the one before; a client that goes
 * away ends the reading. An error in the middle breaks the connection, so that nobody takes a part of the list for
 * all of it.
 */
export function sendStreamedList(reply: FastifyReply, parts: AsyncIterable<readonly object[]>): void {
  reply.type('application/json; charset=utf-8').send(Readable.from(arrayText(parts), { objectMode: false }))
}

async function* arrayText(parts: AsyncIterable<readonly object[]>) {
  let before = '['
  for await (const rows of parts) {
    if (rows.length === 0) continue
    yield before + JSON.stringify(rows).slice(1, -1)
    before = ','
    // An embedded store answers within the turn that asks it: others have theirs now.
    await nextTurn()
  }
  yield before === '[' ? '[]' : ']'
}
