/**
 * Makes git delete the refs of a push in one transaction. Otherwise it rewrites all packed refs for each deleted ref,
 * unless the push is atomic: for 500 of 60,000 refs this took more than a minute under the repository's lock.
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
 * Returns the push as an atomic one; undefined when it is already atomic, deletes less than two refs, or gets no report of
 * refused refs.
 */
export async function toAtomicDeletion(arrived: BufferedPush): Promise<BufferedPush | undefined> {
  const { push, held } = arrived
  if (push.capabilities.has(ATOMIC) || !isReported(push)) return undefined
  if (push.commands.filter(({ to }) => to === null).length < 2) return undefined
  const capabilities = new Set([...push.capabilities, ATOMIC])
  const atomic = await acceptedPart({ ...push, capabilities }, new Map())
  const head = atomic.front.subarray(0, atomic.packStart)
  const stream = (skip = 0) =>
    skip < head.length
      ? Readable.from(following(head.subarray(skip), held.stream(push.packStart)), { objectMode: false })
      : held.stream(push.packStart + skip - head.length)
  return { ...arrived, push: atomic, held: { ...held, stream } }
}

async function* following(first: Buffer, rest: Readable): AsyncGenerator<Buffer> {
  yield first
  yield* rest
}

/** Whether git refused an atomic push. Then no ref moved, and the push must run again without `atomic`. */
export async function isAtomicRefusal(answer: Buffer, push: PushRequest): Promise<boolean> {
  const report = await reportIn(answer, push)
  if (report === undefined) return false
  for (let rest = report; rest.length > 0; ) {
    const next = readPacket(rest)
    if (next === undefined || next === 'malformed') return false
    // An atomic push refuses all refs or none.
    if (next.kind === 'data' && !next.payload.toString('latin1').startsWith('unpack '))
      return next.payload.toString('latin1').startsWith('ng ')
    rest = rest.subarray(next.length)
  }
  return false
}
