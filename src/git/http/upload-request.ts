/** Reads which objects a fetch names by their ids, in every version of the protocol. */
import type { Readable } from 'node:stream'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import { MalformedGitRequest } from '../process/errors.ts'
import { ZERO_ID } from '../refs/names.ts'
import { packet, readPacket } from './pkt-line.ts'

/** Separates the sections of a request in version 2. */
const DELIMITER = Buffer.from('0001')
/** git ignores the rest of the line after the id. */
const NAMED = /^(want|have|shallow) ([0-9a-fA-F]{40})/
/** Size of a passed chunk, in bytes. */
const PART_BYTES = 16 * 1024
/** Other commands of protocol version 2 report about objects and are not used by clients. */
const COMMANDS = ['fetch', 'ls-refs']
/**
 * Maximum number of lines in a fetch, by word: git searches the history for each. Honest clients send some hundred;
 * 100,000 took half a minute.
 */
const MAX_LINES: ReadonlyMap<string, number> = new Map([
  ['shallow', 10_000],
  ['deepen-not', 100],
])

/**
 * `want`: requested objects. `have`, `shallow`: objects that the client claims to have, with or without their history.
 */
export interface NamedObject {
  word: 'want' | 'have' | 'shallow'
  id: string
}

/**
 * Yields the objects that a fetch names, in the order of the request.
 * @throws MalformedGitRequest
 */
export async function* namedObjects(request: Readable): AsyncGenerator<NamedObject> {
  const counts = new Map<string, number>()
  for await (const { line } of linesOf(request)) {
    if (line === undefined) continue
    const [, command] = /^command=([^\n]*)/.exec(line) ?? []
    if (command !== undefined && !COMMANDS.includes(command)) {
      throw new MalformedGitRequest('only the commands fetch and ls-refs are served')
    }
    countLine(counts, line)
    const named = namedIn(line)
    if (named !== undefined) yield named
  }
}

/** Yields the request without the lines that claim these objects. git then answers as if the repository lacked them. */
export async function* requestWithout(request: Readable, ids: ReadonlySet<string>): AsyncGenerator<Buffer> {
  let hasEnded = false
  let kept: Buffer[] = []
  let size = 0
  for await (const { line, bytes } of linesOf(request)) {
    const named = line === undefined ? undefined : namedIn(line)
    const isHidden = named !== undefined && named.word !== 'want' && ids.has(named.id)
    if (line === undefined) hasEnded = true
    // With an empty list of `have`, version 2 answers in another way. Older versions would repeat the id in their
    // answer.
    if (isHidden && hasEnded) continue
    const passed = isHidden ? packet(`${named.word} ${ZERO_ID}\n`) : bytes
    kept.push(passed)
    size += passed.length
    if (size < PART_BYTES) continue
    yield Buffer.concat(kept)
    kept = []
    size = 0
  }
  yield Buffer.concat(kept)
}

function namedIn(line: string): NamedObject | undefined {
  const [, word, id] = NAMED.exec(line) ?? []
  if (id === undefined || (word !== 'want' && word !== 'have' && word !== 'shallow')) return undefined
  return { word, id: id.toLowerCase() }
}

/** Yields the packets of a request with the beginnings of their lines; a flush packet has none. */
async function* linesOf(request: Readable): AsyncGenerator<{ line: string | undefined; bytes: Buffer }> {
  const slices = timeSlices()
  let unread: Buffer = Buffer.alloc(0)
  for await (const chunk of request) {
    unread = Buffer.concat([unread, chunk])
    for (;;) {
      if (unread.length >= 4 && unread.subarray(0, 4).equals(DELIMITER)) {
        yield { line: '', bytes: DELIMITER }
        unread = unread.subarray(4)
        continue
      }
      const next = readPacket(unread)
      if (next === undefined) break
      if (next === 'malformed') throw new MalformedGitRequest('the request is not in packet lines')
      const bytes = unread.subarray(0, next.length)
      unread = unread.subarray(next.length)
      // Only the beginning matters, and NUL never ends it: it is ASCII.
      yield { line: next.kind === 'flush' ? undefined : next.payload.toString('latin1', 0, 64), bytes }
      if (slices.isOver()) await slices.next()
    }
  }
}

/** @throws MalformedGitRequest when a request has too many lines of one kind */
function countLine(counts: Map<string, number>, line: string): void {
  const word = line.slice(0, line.indexOf(' '))
  const most = MAX_LINES.get(word)
  if (most === undefined) return
  const count = (counts.get(word) ?? 0) + 1
  counts.set(word, count)
  if (count <= most) return
  limitReached('fetch_request_lines')
  throw new MalformedGitRequest(`a fetch may have at most ${most} lines of ${word}`)
}
