/** Reads the commands of a push from the beginning of its request, and writes the answer to a refused push. */
import type { Readable } from 'node:stream'
import { forEachInSlices, timeSlices } from '../../concurrency/event-loop.ts'
import { limitReached } from '../../errors/limits.ts'
import { bandPackets, FLUSH, packet, readPacket } from '../http/pkt-line.ts'
import { bodyError } from '../http/request-body.ts'
import { GitClientGone, GitRequestTooLarge, MalformedGitRequest, TooManyRefs } from '../process/errors.ts'
import { isObjectId, ZERO_ID } from '../refs/names.ts'
import type { RefChange } from '../refs/refs.ts'

export interface PushRequest {
  /** The requested changes of refs. Each ref is named once. */
  commands: RefChange[]
  /** New objects of refs that were refused before git sees the push. The pack has their objects. */
  refusedTips: readonly string[]
  capabilities: ReadonlySet<string>
  /** The boundary commits of a shallow clone. */
  shallow: string[]
  /** The values of `--push-option`. */
  options: string[]
  /** All bytes read from the body. git needs them before the remaining ones. */
  front: Buffer
  /** Offset of the pack in the body, in bytes. */
  packStart: number
}

/** The new objects of all refs: the tips that the client packed. */
export const newTips = ({ commands, refusedTips }: PushRequest): string[] => [
  ...commands.flatMap(({ to }) => to ?? []),
  ...refusedTips,
]

export interface PushRequestLimits {
  /** Maximum size of the commands, in bytes. */
  maxBytes?: number
  /** Maximum number of commands, and of shallow boundary commits. */
  maxCommands?: number | undefined
}

const MAX_BYTES = 8 * 1024 * 1024
/** Maximum of `MAX_PUSH_REFS`. */
const MAX_COMMANDS = 100_000
const COMMAND = /^([0-9a-f]{40}) ([0-9a-f]{40}) ([^\0]+)$/
const MAX_REASON_LENGTH = 500
const NOT_ALONE = 'not pushed, because another ref of this push was refused'
/** Push options are recorded with the push. */
const MAX_OPTIONS = 50
const MAX_OPTION_CHARACTERS = 4096

/**
 * Reads the commands of a push, and no further than the chunk in which they end.
 * @throws MalformedGitRequest, TooManyRefs, GitRequestTooLarge, or GitClientGone when the body breaks off
 */
export async function readPushRequest(
  body: Readable,
  { maxBytes = MAX_BYTES, maxCommands = MAX_COMMANDS }: PushRequestLimits = {},
): Promise<PushRequest> {
  const packets = packetsOf(body, maxBytes)
  const slices = timeSlices()
  const commands: RefChange[] = []
  const named = new Set<string>()
  const shallow: string[] = []
  const capabilities = new Set<string>()

  for await (const line of packets.untilFlush()) {
    if (line.startsWith('shallow ')) {
      const id = line.slice('shallow '.length)
      if (!isObjectId(id)) throw new MalformedGitRequest('the push has a shallow line without an id')
      shallow.push(id)
    } else if (line.startsWith('push-cert\0')) {
      throw new MalformedGitRequest('signed pushes are not supported')
    } else {
      const [command = '', list = ''] = line.split('\0')
      for (const word of capabilitiesIn(list)) capabilities.add(word)
      const change = parseCommand(command)
      if (named.has(change.ref)) throw new MalformedGitRequest('the push names a ref twice')
      named.add(change.ref)
      commands.push(change)
    }
    if (commands.length > maxCommands || shallow.length > maxCommands) {
      limitReached('push_refs')
      throw new TooManyRefs(`a push may name at most ${maxCommands} refs: push them in parts`, {
        capabilities,
      })
    }
    if (slices.isOver()) await slices.next()
  }
  const options: string[] = []
  if (capabilities.has('push-options')) {
    let characters = 0
    for await (const line of packets.untilFlush()) {
      options.push(line)
      characters += line.length
      if (options.length > MAX_OPTIONS || characters > MAX_OPTION_CHARACTERS) {
        limitReached('push_refs')
        throw new GitRequestTooLarge(
          `a push may have at most ${MAX_OPTIONS} options, and ${MAX_OPTION_CHARACTERS} characters in them`,
        )
      }
    }
  }
  const [front, packStart] = [packets.front(), packets.taken()]
  return { commands, refusedTips: [], capabilities, shallow, options, front, packStart }
}

/**
 * Parses capabilities as git does: on any line, between any white space. One with a value is also listed without it. git
 * would end without an answer for an object format that the repository lacks.
 */
function capabilitiesIn(list: string): string[] {
  const words = list.split(/[ \t\n\r]+/).filter((word) => word !== '')
  return words.flatMap((word) => {
    const [name = '', value] = word.split('=', 2)
    if (name === 'object-format' && value !== 'sha1') {
      throw new MalformedGitRequest('object-format: this server has only sha1')
    }
    return value === undefined || name === 'object-format' ? [word] : [word, name]
  })
}

function parseCommand(line: string): RefChange {
  const [, old, next, ref] = COMMAND.exec(line) ?? []
  if (old === undefined || next === undefined || ref === undefined) {
    throw new MalformedGitRequest('the push has a line that is not a command')
  }
  return { ref, from: old === ZERO_ID ? null : old, to: next === ZERO_ID ? null : next }
}

function packetsOf(body: Readable, maxBytes: number) {
  const front: Buffer[] = []
  let size = 0
  let unread: Buffer = Buffer.alloc(0)
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

  function decode(payload: Buffer): string {
    const end = payload.at(-1) === 0x0a ? -1 : payload.length
    try {
      return text.decode(payload.subarray(0, end))
    } catch {
      throw new MalformedGitRequest('the push names a ref that is not valid UTF-8')
    }
  }

  return {
    front: () => Buffer.concat(front),
    taken: () => size - unread.length,
    async *untilFlush(): AsyncGenerator<string> {
      for (;;) {
        const next = readPacket(unread)
        if (next === 'malformed') throw new MalformedGitRequest('the push is not in packet lines')
        if (next !== undefined) {
          unread = unread.subarray(next.length)
          if (next.kind === 'flush') return
          yield decode(next.payload)
          continue
        }
        // The limit applies to the commands; the last chunk may contain more.
        if (size > maxBytes) {
          limitReached('push_refs')
          throw new GitRequestTooLarge(`the commands of a push may take at most ${maxBytes} bytes`)
        }
        const chunk = await nextChunk(body)
        if (chunk === undefined) throw new MalformedGitRequest('the push ends within its commands')
        front.push(chunk)
        size += chunk.length
        unread = Buffer.concat([unread, chunk])
      }
    },
  }
}

/** Returns the next chunk of the body; undefined at its end. The body must have no other reader. */
async function nextChunk(body: Readable): Promise<Buffer | undefined> {
  for (;;) {
    const chunk: unknown = body.read()
    if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    if (body.errored) throw bodyError(body.errored)
    if (body.readableEnded) return undefined
    if (body.destroyed) throw new GitClientGone('the client went away before its request was complete')
    await nextBodyEvent(body)
  }
}

/** Resolves when the body may have new bytes, or has ended or failed. */
async function nextBodyEvent(body: Readable): Promise<void> {
  const events = ['readable', 'end', 'error', 'close']
  await new Promise<void>((resolve) => {
    const onEvent = () => {
      for (const event of events) body.off(event, onEvent)
      resolve()
    }
    for (const event of events) body.once(event, onEvent)
  })
}

/**
 * Writes the report of a push that is refused as a whole. A ref without its own reason is refused because of the other
 * refs.
 */
export async function refusalReport(
  push: PushRequest,
  reasons: ReadonlyMap<string, string>,
): Promise<Buffer> {
  const { capabilities, commands } = push
  const sideBand = hasSideBand(capabilities)
  const flush = Buffer.from(FLUSH)
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2')) {
    return sideBand ? fatalAnswer(await reasonLines(reasons)) : Buffer.alloc(0)
  }
  const all = commands.map(({ ref }): [string, string] => [ref, reasons.get(ref) ?? NOT_ALONE])
  const report = Buffer.concat([packet('unpack ok\n'), await refusedLines(all), flush])
  return sideBand ? Buffer.concat([bandPackets(1, report), flush]) : report
}

const hasSideBand = (capabilities: ReadonlySet<string>) =>
  capabilities.has('side-band-64k') || capabilities.has('side-band')

/** Writes a fatal error, which the client shows before it fails. */
function fatalAnswer(text: string): Buffer {
  return Buffer.concat([bandPackets(3, Buffer.from(text)), Buffer.from(FLUSH)])
}

/** Whether the client shows the text of a fatal error to its user. */
export const canShowText = ({ capabilities }: PushRequest) => hasSideBand(capabilities)

/** Answers a push without a report: the client shows the text and fails. */
export const textAnswer = fatalAnswer

/** Answers a push of too many refs with a text for the user; undefined when the client cannot show one. */
export function tooManyRefsAnswer({ capabilities, message }: TooManyRefs): Buffer | undefined {
  return hasSideBand(capabilities) ? fatalAnswer(`${message}\n`) : undefined
}

async function reasonLines(reasons: ReadonlyMap<string, string>): Promise<string> {
  let text = ''
  await forEachInSlices(reasons, ([ref, reason]) => {
    text += `${ref}: ${oneLine(reason)}\n`
  })
  return text
}

/** Writes the report lines of refused refs. */
export async function refusedLines(reasons: Iterable<[string, string]>): Promise<Buffer> {
  const lines: Buffer[] = []
  await forEachInSlices(reasons, ([ref, reason]) => {
    lines.push(packet(`ng ${ref} ${oneLine(reason)}\n`))
  })
  return Buffer.concat(lines)
}

function oneLine(reason: string): string {
  return reason.replace(/\p{Cc}+/gu, ' ').slice(0, MAX_REASON_LENGTH)
}

/** Refuses all refs of a push that lacks an unreachable object. */
export const reasonsOfMissing = (push: PushRequest, missing: string) =>
  reasonsOfNew(push, `no branch or tag has ${missing}, and the push does not bring it`)

/** Refuses all refs of a push that brings an object which none of them reaches. */
export const reasonsOfUnreached = (push: PushRequest, unreached: string) =>
  reasonsOfNew(push, `the push brings ${unreached}, and no branch or tag of the push has it`)

/** Gives one reason to all refs of a push that point to an object. */
export const reasonsOfNew = ({ commands }: PushRequest, reason: string): ReadonlyMap<string, string> =>
  new Map(commands.flatMap(({ ref, to }) => (to === null ? [] : [[ref, reason] as const])))
