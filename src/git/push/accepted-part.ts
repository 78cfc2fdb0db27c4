/** Splits a push with refused refs: the request that git gets, and the answer to the whole push. */
import { forEachInSlices, timeSlices } from '../../concurrency/event-loop.ts'
import { bandPackets, FLUSH, packet, readPacket } from '../http/pkt-line.ts'
import { ZERO_ID } from '../refs/names.ts'
import { type PushRequest, refusedLines } from './push-request.ts'

/**
 * Returns the push without the refused refs, as git reads it, with the whole pack. Objects that only refused refs reach
 * are never served, and maintenance removes them.
 */
export async function acceptedPart(
  push: PushRequest,
  refused: ReadonlyMap<string, string>,
): Promise<PushRequest> {
  const commands = push.commands.filter(({ ref }) => !refused.has(ref))
  const refusedTips = [
    ...push.refusedTips,
    ...push.commands.flatMap(({ ref, to }) => (refused.has(ref) && to !== null ? [to] : [])),
  ]
  const lines: Buffer[] = []
  await forEachInSlices(push.shallow, (id) => {
    lines.push(packet(`shallow ${id}`))
  })
  const capabilities = `\0${[...push.capabilities].join(' ')}`
  await forEachInSlices(commands.entries(), ([i, { ref, from, to }]) => {
    lines.push(packet(`${from ?? ZERO_ID} ${to ?? ZERO_ID} ${ref}${i === 0 ? capabilities : ''}`))
  })
  const head = Buffer.concat([
    ...lines,
    Buffer.from(FLUSH),
    ...(push.capabilities.has('push-options')
      ? [...push.options.map((option) => packet(option)), Buffer.from(FLUSH)]
      : []),
  ])
  // The bytes read beyond the commands are the beginning of the pack.
  const front = Buffer.concat([head, push.front.subarray(push.packStart)])
  return { ...push, commands, refusedTips, front, packStart: head.length }
}

/** Adds a line for each refused ref to git's answer. */
export async function withRefusals(
  answer: Buffer,
  { capabilities }: PushRequest,
  refused: ReadonlyMap<string, string>,
): Promise<Buffer> {
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2')) return answer
  const lines = await refusedLines(refused)
  const report = (own: Buffer) =>
    Buffer.concat([own.subarray(0, own.length - FLUSH.length), lines, Buffer.from(FLUSH)])
  if (!capabilities.has('side-band-64k') && !capabilities.has('side-band')) return report(answer)
  const bands = await bandsOf(answer)
  // A fatal error replaces the report.
  if (bands === undefined || bands.report.length === 0) return answer
  return Buffer.concat([...bands.others, bandPackets(1, report(bands.report)), Buffer.from(FLUSH)])
}

/** Returns the report of refs in git's answer; undefined without one. */
export async function reportIn(answer: Buffer, { capabilities }: PushRequest): Promise<Buffer | undefined> {
  const hasBands = capabilities.has('side-band-64k') || capabilities.has('side-band')
  return hasBands ? (await bandsOf(answer))?.report : answer
}

/** Returns the report in an answer with side bands, and the packets of the other bands; undefined without bands. */
async function bandsOf(answer: Buffer): Promise<{ report: Buffer; others: Buffer[] } | undefined> {
  const slices = timeSlices()
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
    if (slices.isOver()) await slices.next()
  }
  return { report: Buffer.concat(report), others }
}
