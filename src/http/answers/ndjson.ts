/** Answers with lines of JSON: `application/x-ndjson`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendStreamedText } from './streamed-text.ts'

export const NDJSON = 'application/x-ndjson'

/** Sends every batch of JSON texts, one text per line. See `sendStreamedText`. */
export function sendLines(
  request: FastifyRequest,
  reply: FastifyReply,
  batches: () => AsyncIterable<readonly string[]>,
): void {
  sendStreamedText(request, reply, `${NDJSON}; charset=utf-8`, () => linesOf(batches()))
}

async function* linesOf(batches: AsyncIterable<readonly string[]>): AsyncGenerator<string> {
  for await (const batch of batches) {
    if (batch.length > 0) yield `${batch.join('\n')}\n`
  }
}
