/**
 * Lets git delete the refs of a push together. One after the other, as it does them unless all or none are asked for, it
 * writes all packed refs anew for each: 500 of 60,000 took more than a minute, in which no other push had its turn.
 */
import { Readable } from 'node:stream'
import { readPacket } from '../http/pkt-line.ts'
import { acceptedPart, reportIn } from '../push/accepted-part.ts'
import type { BufferedPush } from '../push/exclusive-push.ts'
import type { PushRequest } from '../push/push-request.ts'

const ATOMIC = 'atomic'

const isReported = ({ capabilities }: PushRequest) =>
  capabilities.has('report-status') || capabilities.has('report-status-v2')

/**
 * The push as one that asks for all or none of its changes. Undefined when it does so by itself, deletes less than two refs,
 * or gets no report of which ones were refused.
 */
export async function toAtomicDeletion(arrived: BufferedPush): Promise<BufferedPush | undefined> {
  const { push, held } = arrived
  if (push.capabilities.has(ATOMIC) || !isReported(push)) return undefined
  if (push.commands.filter(({ to }) => to === null).length < 2) return undefined
  const capabilities = new Set([...push.capabilities, ATOMIC])
  const together = await acceptedPart({ ...push, capabilities }, new Map())
  const head = together.front.subarray(0, together.packStart)
  const stream = (skip = 0) =>
    skip < head.length
      ? Readable.from(following(head.subarray(skip), held.stream(push.packStart)), { objectMode: false })
      : held.stream(push.packStart + skip - head.length)
  return { ...arrived, push: together, held: { ...held, stream } }
}

async function* following(first: Buffer, rest: Readable): AsyncGenerator<Buffer> {
  yield first
  yield* rest
}

/** Whether git refused the refs of such a push. It then did none, and has to do the others one after the other. */
export async function isAtomicRefusal(answer: Buffer, push: PushRequest): Promise<boolean> {
  const report = await reportIn(answer, push)
  if (report === undefined) return false
  for (let rest = report; rest.length > 0; ) {
    const next = readPacket(rest)
    if (next === undefined || next === 'malformed') return false
    // Each ref is refused, or none.
    if (next.kind === 'data' && !next.payload.toString('latin1').startsWith('unpack '))
      return next.payload.toString('latin1').startsWith('ng ')
    rest = rest.subarray(next.length)
  }
  return false
}
