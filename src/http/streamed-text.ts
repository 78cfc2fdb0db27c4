/** A text of any length as an answer: sent while it is made, a part at a time, and never held whole. */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** A client that takes nothing for so long is given up: it holds a place that others may need. */
const STALLED_MS = 60_000
/** What a server that stops leaves to answers that are about to end. */
const GRACE_MS = 1000

/**
 * Sends the parts as they come; the next one is asked for when the client has taken most of those before. A
 * client that goes away ends the iteration; an error in the middle breaks the connection. HEAD gets the headers
 * alone, and nothing is iterated. `ending`: nothing may keep the connection open for long after that.
 */
export function sendStreamedText(
  request: FastifyRequest,
  reply: FastifyReply,
  type: string,
  parts: () => AsyncIterable<string>,
  ending?: AbortSignal,
): void {
  reply.type(type)
  if (request.method === 'HEAD') {
    reply.send(Readable.from([]))
    return
  }
  if (ending !== undefined) breakAfterGrace(reply, ending)
  reply.send(Readable.from(unlessStalled(reply, parts()), { objectMode: false }))
}

async function* unlessStalled(reply: FastifyReply, parts: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const part of parts) {
    const stalled = setTimeout(() => reply.raw.destroy(), STALLED_MS).unref()
    try {
      yield part
    } finally {
      clearTimeout(stalled)
    }
  }
}

function breakAfterGrace(reply: FastifyReply, ending: AbortSignal): void {
  const onEnding = () => {
    const grace = setTimeout(() => reply.raw.destroy(), GRACE_MS).unref()
    reply.raw.once('close', () => clearTimeout(grace))
  }
  ending.addEventListener('abort', onEnding, { once: true })
  reply.raw.once('close', () => ending.removeEventListener('abort', onEnding))
}
