/** Writes answers as JSON: a short one as a text, a long list in chunks, as the client reads them. */
import { Readable } from 'node:stream'
import { currentWorkKey, timeSlices } from '../../concurrency/event-loop.ts'
import { jsonOf } from './cached-json.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Fastify sends what a serializer returns, and it can send a stream. Its own types name only a string. */
    setSerializerCompiler(compiler: () => (answer: unknown) => string | Readable): FastifyInstance
  }
}

/** Minimum size of a chunk, in characters: thirty pull requests fit, and take a millisecond or two to write. */
const CHUNK_CHARACTERS = 256 * 1024

const held = new WeakMap<Readable, number>()

/** Records about how many bytes an unread stream holds in memory. */
export function holds(stream: Readable, bytes: number): void {
  held.set(stream, bytes)
}

/** Returns about how many bytes an unread stream holds in memory; undefined when unknown. */
export function heldBytes(stream: Readable): number | undefined {
  return held.get(stream)
}

/** The long list field of an answer, and the JSON text before its first row. */
const longLists = new WeakMap<object, { before: string; rows: readonly unknown[] }>()

/** Marks a field of an answer as a long list. It is serialized last and in chunks, like a top-level list. */
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
 * Serializes an answer. A list keeps all of its rows, however long they are: clients rely on whole pages. Each row is
 * written only when the client has read those before it.
 */
export function jsonAnswer(answer: unknown): string | Readable {
  if (Array.isArray(answer)) return listJson('[', answer, ']')
  const long = typeof answer === 'object' && answer !== null ? longLists.get(answer) : undefined
  return long === undefined ? jsonOf(answer) : listJson(long.before, long.rows, ']}')
}

/** The rest of an answer after its first chunk. */
interface Rest {
  /** The scheduling key, as in `nextSlice`. */
  client: string
  first: string
  from: number
  after: string
}

function listJson(before: string, rows: readonly unknown[], after: string): string | Readable {
  const { text, next } = chunkFrom(rows, 0)
  if (next === rows.length) return `${before}${text}${after}`
  const rest = { client: currentWorkKey() ?? 'answers', first: `${before}${text}`, from: next, after }
  const stream = Readable.from(chunksOf(rows, rest), { objectMode: false })
  holds(stream, charactersIn(rows))
  return stream
}

async function* chunksOf(
  rows: readonly unknown[],
  { client, first, from, after }: Rest,
): AsyncGenerator<string> {
  // A fast client would otherwise get all chunks in one iteration of the event loop.
  const { pauseIfOver } = timeSlices(client)
  yield first
  for (let at = from; at < rows.length; ) {
    await pauseIfOver()
    const { text, next } = chunkFrom(rows, at)
    yield text
    at = next
  }
  yield after
}

/** Returns the rows from this one on as one chunk, and the index of the row after them. */
function chunkFrom(rows: readonly unknown[], from: number): { text: string; next: number } {
  let text = ''
  let at = from
  while (at < rows.length && text.length < CHUNK_CHARACTERS) {
    text += at === 0 ? jsonOf(rows[at]) : `,${jsonOf(rows[at])}`
    at += 1
  }
  return { text, next: at }
}

/** Estimates the size of a value: the characters of its texts, and some for each value. */
function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce<number>((sum, part) => sum + charactersIn(part), 16)
}
