/** Writes answers as JSON: a short one as a text, a long list in pieces, as the client takes them. */
import { Readable } from 'node:stream'
import { jsonOf } from './shared-parts.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Fastify sends what a serializer returns, and it can send a stream. Its own types name only a string. */
    setSerializerCompiler(compiler: () => (answer: unknown) => string | Readable): FastifyInstance
  }
}

/** In characters: a page of thirty pull requests fits in. It is written in a millisecond or two, and held as text. */
const PIECE = 256 * 1024

const held = new WeakMap<Readable, number>()

/** Notes about how many bytes a stream holds in memory until it is read. */
export function holds(stream: Readable, bytes: number): void {
  held.set(stream, bytes)
}

/** About how many bytes a stream holds in memory until it is read; undefined when nobody has noted it. */
export function heldBytes(stream: Readable): number | undefined {
  return held.get(stream)
}

/**
 * An answer as JSON. A list keeps all of its rows, however long they are: clients count on whole pages. Each row is
 * written only when the client has taken those before it.
 */
export function jsonAnswer(answer: unknown): string | Readable {
  if (!Array.isArray(answer)) return jsonOf(answer)
  const { text, next } = piece(answer, 0)
  if (next === answer.length) return `[${text}]`
  const stream = Readable.from(pieces(answer, text, next), { objectMode: false })
  holds(stream, charactersIn(answer))
  return stream
}

function* pieces(rows: readonly unknown[], first: string, from: number): Generator<string> {
  yield `[${first}`
  for (let at = from; at < rows.length; ) {
    const { text, next } = piece(rows, at)
    yield text
    at = next
  }
  yield ']'
}

/** The rows from this one on, until they are a piece, and the place of the row after them. */
function piece(rows: readonly unknown[], from: number): { text: string; next: number } {
  let text = ''
  let at = from
  while (at < rows.length && text.length < PIECE) {
    text += at === 0 ? jsonOf(rows[at]) : `,${jsonOf(rows[at])}`
    at += 1
  }
  return { text, next: at }
}

/** Characters of all texts in a value, and a little for each value. */
function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce<number>((sum, part) => sum + charactersIn(part), 16)
}
