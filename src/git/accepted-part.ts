/** Of a push of which some refs are refused: what git gets to see, and the answer to the whole of it. */
import { ZERO_ID } from './names.ts'
import { bandPackets, FLUSH, packet, readPacket } from './pkt-line.ts'
import { type PushRequest, refusedLine } from './push-request.ts'

/** The push without the refused refs, as git reads it. The pack stays: what no ref reaches of it is never served. */
export function acceptedPart(push: PushRequest, refused: ReadonlyMap<string, string>): PushRequest {
  const commands = push.commands.filter(({ ref }) => !refused.has(ref))
  const lines = commands.map(({ ref, from, to }) => `${from ?? ZERO_ID} ${to ?? ZERO_ID} ${ref}`)
  const [first = '', ...rest] = lines
  const head = Buffer.concat([
    ...push.shallow.map((id) => packet(`shallow ${id}`)),
    packet(`${first}\0${[...push.capabilities].join(' ')}`),
    ...rest.map((line) => packet(line)),
    Buffer.from(FLUSH),
    ...(push.capabilities.has('push-options')
      ? [...push.options.map((option) => packet(option)), Buffer.from(FLUSH)]
      : []),
  ])
  // What was read of the body beyond the commands is the beginning of the pack.
  const front = Buffer.concat([head, push.front.subarray(push.packStart)])
  return { ...push, commands, front, packStart: head.length }
}

/** git's answer to the accepted part, with a line for each refused ref. */
export function withRefused(
  answer: Buffer,
  { capabilities }: PushRequest,
  refused: ReadonlyMap<string, string>,
): Buffer {
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2')) return answer
  const lines = [...refused].map(([ref, reason]) => refusedLine(ref, reason))
  const report = (own: Buffer) =>
    Buffer.concat([own.subarray(0, own.length - FLUSH.length), ...lines, Buffer.from(FLUSH)])
  if (!capabilities.has('side-band-64k') && !capabilities.has('side-band')) return report(answer)
  const bands = bandsOf(answer)
  // A fatal error comes instead of a report.
  if (bands === undefined || bands.report.length === 0) return answer
  return Buffer.concat([...bands.others, bandPackets(1, report(bands.report)), Buffer.from(FLUSH)])
}

/** The report in an answer with side bands, and the packets of the other bands; undefined when it has no bands. */
function bandsOf(answer: Buffer): { report: Buffer; others: Buffer[] } | undefined {
  const report: Buffer[] = []
  const others: Buffer[] = []
  for (let rest = answer; rest.length > 0; ) {
    const next = readPacket(rest)
    if (next === undefined || next === 'malformed') return undefined
    if (next.kind === 'data') {
      if (next.payload[0] === 1) report.push(next.payload.subarray(1))
      else others.push(rest.subarray(0, next.length))
    }
    rest = rest.subarray(next.length)
  }
  return { report: Buffer.concat(report), others }
}
