/** MongoDB's wire protocol: reads messages from bytes, and writes answers as bytes. */
import { badValue } from './failure.ts'
import { type BsonDocument, decode, encode } from './values.ts'

export const MAX_MESSAGE_BYTES = 48_000_000

const HEADER_BYTES = 16
const OP_REPLY = 1
const OP_QUERY = 2004
const OP_MSG = 2013
/** Those that a server knows or knew: the old ones, OP_COMPRESSED and OP_MSG. */
const OPERATIONS = new Set([2001, 2002, OP_QUERY, 2005, 2006, 2007, 2012, OP_MSG])
const CHECKSUM_PRESENT = 1
const MORE_TO_COME = 2

/** A received command, and the form that its answer must have. */
export interface Message {
  command: BsonDocument
  /** False when the client does not wait for an answer. */
  wantsReply: boolean
  reply(document: BsonDocument): Uint8Array
}

/** Splits a stream of bytes into messages. @throws RangeError when a length is impossible */
export async function* messagesOf(bytes: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  let chunks: Buffer[] = []
  let size = 0
  let wanted = HEADER_BYTES
  for await (const chunk of bytes) {
    chunks.push(chunk)
    size += chunk.length
    if (size < wanted) continue
    let rest = Buffer.concat(chunks)
    wanted = HEADER_BYTES
    while (rest.length >= HEADER_BYTES) {
      // As a TLS connection begins, which would be waited for as a long message.
      if (!OPERATIONS.has(rest.readInt32LE(12))) throw new RangeError('no message of MongoDB')
      const length = rest.readInt32LE(0)
      if (length < HEADER_BYTES || length > MAX_MESSAGE_BYTES)
        throw new RangeError(`message of ${length} bytes`)
      wanted = length
      if (rest.length < length) break
      yield rest.subarray(0, length)
      rest = rest.subarray(length)
      wanted = HEADER_BYTES
    }
    chunks = [rest]
    size = rest.length
  }
}

/** Reads a message. @throws CommandFailure when this server does not understand it */
export function parseMessage(bytes: Buffer): Message {
  const requestId = bytes.readInt32LE(4)
  const opcode = bytes.readInt32LE(12)
  if (opcode === OP_MSG) return parseMsg(bytes, requestId)
  if (opcode === OP_QUERY) return parseQuery(bytes, requestId)
  throw badValue(`wire operation ${opcode} is not supported by the double`)
}

function parseMsg(bytes: Buffer, requestId: number): Message {
  const flags = bytes.readUInt32LE(HEADER_BYTES)
  const end = bytes.length - (flags & CHECKSUM_PRESENT ? 4 : 0)
  let body: BsonDocument = {}
  let sequences: BsonDocument = {}
  let at = HEADER_BYTES + 4
  while (at < end) {
    const kind = bytes.readUInt8(at)
    const length = bytes.readInt32LE(at + 1)
    const section = bytes.subarray(at + 1, at + 1 + length)
    if (length < 5 || section.length < length || at + 1 + length > end)
      throw badValue('a section is cut short')
    if (kind === 0) body = decode(section)
    else if (kind === 1) sequences = { ...sequences, ...parseSequence(section) }
    else throw badValue(`a section of the kind ${kind}`)
    at += 1 + length
  }
  return {
    command: { ...body, ...sequences },
    wantsReply: (flags & MORE_TO_COME) === 0,
    reply(document) {
      const answer = encode(document)
      const head = Buffer.alloc(HEADER_BYTES + 5)
      writeHeader(head, head.length + answer.length, requestId, OP_MSG)
      return Buffer.concat([head, answer])
    },
  }
}

/** Reads a list of documents that is sent next to its command: `{name: documents}`. */
function parseSequence(section: Buffer): BsonDocument {
  const nameEnd = section.indexOf(0, 4)
  if (nameEnd < 0) throw badValue('a document sequence without a name')
  const documents: BsonDocument[] = []
  let at = nameEnd + 1
  while (at < section.length) {
    const length = section.readInt32LE(at)
    if (length < 5 || at + length > section.length) throw badValue('a document is cut short')
    documents.push(decode(section.subarray(at, at + length)))
    at += length
  }
  return { [section.toString('utf8', 4, nameEnd)]: documents }
}

/** Reads the old operation that drivers send first to an unknown server. */
function parseQuery(bytes: Buffer, requestId: number): Message {
  const nameAt = HEADER_BYTES + 4
  const nameEnd = bytes.indexOf(0, nameAt)
  const namespace = bytes.toString('utf8', nameAt, nameEnd)
  const database = /^(.+)\.\$cmd$/.exec(namespace)?.[1]
  if (nameEnd < 0 || database === undefined) throw badValue(`OP_QUERY on ${namespace}`)
  const documentAt = nameEnd + 1 + 8
  const length = bytes.readInt32LE(documentAt)
  const query = decode(bytes.subarray(documentAt, documentAt + length))
  return {
    command: { ...query, $db: database },
    wantsReply: true,
    reply(document) {
      const body = encode(document)
      // Flags, cursor and place are 0; one document follows.
      const head = Buffer.alloc(HEADER_BYTES + 20)
      head.writeInt32LE(1, HEADER_BYTES + 16)
      writeHeader(head, head.length + body.length, requestId, OP_REPLY)
      return Buffer.concat([head, body])
    },
  }
}

let lastReply = 0

function writeHeader(head: Buffer, length: number, responseTo: number, opcode: number): void {
  lastReply = (lastReply + 1) & 0x7fffffff
  head.writeInt32LE(length, 0)
  head.writeInt32LE(lastReply, 4)
  head.writeInt32LE(responseTo, 8)
  head.writeInt32LE(opcode, 12)
}
