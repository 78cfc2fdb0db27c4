/**
 * Makes the many new refs of a push at once. git asks for it with its hook `proc-receive`, when it has all objects in
 * their place: it moves the other refs, and those that we leave to it.
 */
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { FLUSH, packet } from '../http/pkt-line.ts'
import type { GitConfig } from '../process/environment.ts'
import type { PushRequest } from '../push/push-request.ts'
import { makePackedRefs, type NewRef } from '../refs/packed-ref-writes.ts'

/** For fewer refs, git's own files are as fast. */
const MIN_REFS = 50

/** Has git ask for all refs that are new. */
export const PROC_RECEIVE_NEW_REFS: GitConfig = [['receive.procReceiveRefs', 'a:refs']]

/**
 * The new refs of a push when they are many; undefined when git has to make them. `hasRules`: whether git asks another hook
 * for each ref. It would not do so for these.
 */
export function newRefBatch(
  { commands, capabilities, shallow }: PushRequest,
  hasRules: boolean,
): readonly NewRef[] | undefined {
  // git moves the ends of a shallow history with each ref.
  if (hasRules || shallow.length > 0 || commands.length < MIN_REFS) return undefined
  const made = commands.flatMap(({ ref, from, to }) =>
    from === null && to !== null ? [{ ref, sha: to }] : [],
  )
  if (made.length < MIN_REFS || (capabilities.has('atomic') && made.length < commands.length))
    return undefined
  return made
}

/** Makes these refs, or leaves them to git. Resolves to the answer for git, in packets. */
export async function createRefBatch(
  dir: string,
  refs: readonly NewRef[],
  { capabilities }: PushRequest,
): Promise<Buffer> {
  const made = await makePackedRefs(dir, refs, { all: capabilities.has('atomic') })
  const packets: Buffer[] = []
  await forEachInSlices(refs, ({ ref }) => {
    packets.push(packet(`ok ${ref}`))
    if (!made.has(ref)) packets.push(packet('option fall-through'))
  })
  return Buffer.concat([...packets, Buffer.from(FLUSH)])
}
