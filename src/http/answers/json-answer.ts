/** Writes answers as JSON: a short one as a text, a long list in pieces, as the client takes them. */
import { Readable } from 'node:stream'
import { currentWorkKey, timeSlices } from '../../concurrency/event-loop.ts'
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

/** Of answers that are no lists: the field that is a long list, and the beginning of the text up to its first row. */
const longLists = new WeakMap<object, { before: string; rows: readonly unknown[] }>()

/** Notes that a field of an answer may be a long list. It comes last, in pieces, as an answer that is a list. */
export function withLongList<Name extends string, T extends Record<Name, readonly unknown[]>>(
  answer: T,
  name: Name,
): T {
  const others = Object.entries(answer).flatMap(([field, value]) =>
    field === name ? [] : [`${jsonOf(field)}:${jsonOf(value)},`],
  )
  longLists.set(answer, { before: `{${others.join('')}${jsonOf(name)}:[`, rows: answer[name] })
  return answer
}

/**
 * An answer as JSON. A list keeps all of its rows, however long they are: clients count on whole pages. Each row is
 * written only when the client has taken those before it.
 */
export function jsonAnswer(answer: unknown): string | Readable {
  if (Array.isArray(answer)) return listJson('[', answer, ']')
  const long = typeof answer === 'object' && answer !== null ? longLists.get(answer) : undefined
  return long === undefined ? jsonOf(answer) : listJson(long.before, long.rows, ']}')
}

/** What follows when the first piece is made: it, the place of the first row after it, and the end of the text. */
interface Rest {
  /** Whose work it is, as in `nextPiece`. */
  client: string
  first: string
  from: number
  after: string
}

function listJson(before: string, rows: readonly unknown[], after: string): string | Readable {
  const { text, next } = piece(rows, 0)
  if (next === rows.length) return `${before}${text}${after}`
  const rest = { client: currentWorkKey() ?? 'answers', first: `${before}${text}`, from: next, after }
  const stream = Readable.from(pieces(rows, rest), { objectMode: false })
  holds(stream, charactersIn(rows))
  return stream
}

async function* pieces(
  rows: readonly unknown[],
  { client, first, from, after }: Rest,
): AsyncGenerator<string> {
  // A client that takes everything at once would get all pieces in one turn of the event loop.
  const { pauseIfOver } = timeSlices(client)
  yield first
  for (let at = from; at < rows.length; ) {
    await pauseIfOver()
    const { text, next } = piece(rows, at)
    yield text
    at = next
  }
  yield after
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
