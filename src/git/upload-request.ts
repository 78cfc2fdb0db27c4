/** Reads which objects a fetch asks for by id, in every version of the protocol. */
import type { Readable } from 'node:stream'
import { MalformedGitRequest } from './errors.ts'
import { readPacket } from './pkt-line.ts'

/** Separates the sections of a request in version 2. */
const DELIMITER = Buffer.from('0001')
/** git itself takes no notice of what follows the id. */
const WANT = /^want ([0-9a-fA-F]{40})/
/** Other commands of version 2 tell about objects, and nobody needs them. */
const COMMANDS = ['fetch', 'ls-refs']

/**
 * The ids of the objects that a fetch wants, in the order of the request. git reads nothing of them after the first
 * flush packet, and neither does this.
 *
 * @throws MalformedGitRequest
 */
export async function* wantedIds(request: Readable): AsyncGenerator<string> {
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
      const id = WANT.exec(line)?.[1]
      if (id !== undefined) yield id.toLowerCase()
    }
  }
}
