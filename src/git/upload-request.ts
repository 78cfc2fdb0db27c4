/** Reads which objects a fetch asks for by id, in every version of the protocol. */
import type { Readable } from 'node:stream'
import { limitReached } from '../limits.ts'
import { piecesOf } from '../pieces.ts'
import { MalformedGitRequest } from './errors.ts'
import { readPacket } from './pkt-line.ts'

/** Separates the sections of a request in version 2. */
const DELIMITER = Buffer.from('0001')
/** git itself takes no notice of what follows the id. */
const WANT = /^want ([0-9a-fA-F]{40})/
/** Other commands of version 2 tell about objects, and nobody needs them. */
const COMMANDS = ['fetch', 'ls-refs']
/**
 * Lines for each of which git searches the history, and how many of them a fetch may have. Nobody names a dozen branches to
 * leave out, and a shallow clone ends at some hundred commits; 100,000 took half a minute.
 */
const MOST: ReadonlyMap<string, number> = new Map([
  ['shallow', 10_000],
  ['deepen-not', 100],
])

/**
 * The ids of the objects that a fetch wants, in the order of the request. git reads nothing of them after the first
 * flush packet, and neither does this.
 *
 * @param client whose work it is, as in `nextPiece`
 * @throws MalformedGitRequest
 */
export async function* wantedIds(request: Readable, client: string): AsyncGenerator<string> {
  const pieces = piecesOf(client)
  const counts = new Map<string, number>()
  let unread: Buffer = Buffer.alloc(0)
  for await (const chunk of request) {
    unread = Buffer.concat([unread, chunk])
    for (;;) {
      if (unread.length >= 4 && unread.subarray(0, 4).equals(DELIMITER)) {
        unread = unread.subarray(4)
        continue
      }
      const next = readPacket(unread)
      if (next === undefined) break
      if (next === 'malformed') throw new MalformedGitRequest('the request is not in packet lines')
      if (next.kind === 'flush') return
      unread = unread.subarray(next.length)
      // Only the beginning matters, and NUL never ends it: it is ASCII.
      const line = next.payload.toString('latin1', 0, 64)
      const [, command] = /^command=([^\n]*)/.exec(line) ?? []
      if (command !== undefined && !COMMANDS.includes(command)) {
        throw new MalformedGitRequest('only the commands fetch and ls-refs are served')
      }
      countLine(counts, line)
      const id = WANT.exec(line)?.[1]
      if (id !== undefined) yield id.toLowerCase()
      if (pieces.isOver()) await pieces.next()
    }
  }
}

/** @throws MalformedGitRequest for one line of its kind too many */
function countLine(counts: Map<string, number>, line: string): void {
  const word = line.slice(0, line.indexOf(' '))
  const most = MOST.get(word)
  if (most === undefined) return
  const count = (counts.get(word) ?? 0) + 1
  counts.set(word, count)
  if (count <= most) return
  limitReached('fetch_request_lines')
  throw new MalformedGitRequest(`a fetch may have at most ${most} lines of ${word}`)
}
