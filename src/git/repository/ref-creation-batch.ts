/**
 * Creates the many new refs of a push in one write. git requests it with its hook `proc-receive`, when all objects are in
 * place; it moves the other refs itself, and those that the server leaves to it.
 */
import { forEachInSlices } from '../../concurrency/event-loop.ts'
import { FLUSH, packet } from '../http/pkt-line.ts'
import type { GitConfig } from '../process/environment.ts'
import type { PushRequest } from '../push/push-request.ts'
import { makePackedRefs, type NewRef } from '../refs/packed-ref-writes.ts'

/** Minimum number of refs. For fewer, git's own files are as fast. */
const MIN_REFS = 50

/** Makes git delegate the creation of all new refs. */
export const PROC_RECEIVE_NEW_REFS: GitConfig = [['receive.procReceiveRefs', 'a:refs']]

/**
 * Returns the new refs of a push if there are at least 50; undefined when git must create them. `hasRules`: whether git
 * runs another hook for each ref, which it would skip for these.
 */
export function newRefBatch(
  { commands, capabilities, shallow }: PushRequest,
  hasRules: boolean,
): readonly NewRef[] | undefined {
  // git updates the boundary of a shallow history with each ref.
  if (hasRules || shallow.length > 0 || commands.length < MIN_REFS) return undefined
  const created = commands.flatMap(({ ref, from, to }) =>
    from === null && to !== null ? [{ ref, sha: to }] : [],
  )
  if (created.length < MIN_REFS || (capabilities.has('atomic') && created.length < commands.length))
    return undefined
  return created
}

/** Creates these refs, or leaves them to git. Resolves to the answer for git, in packets. */
export async function createRefBatch(
  dir: string,
  refs: readonly NewRef[],
  { capabilities }: PushRequest,
): Promise<Buffer> {
  const created = await makePackedRefs(dir, refs, { all: capabilities.has('atomic') })
  const packets: Buffer[] = []
  await forEachInSlices(refs, ({ ref }) => {
    packets.push(packet(`ok ${ref}`))
    if (!created.has(ref)) packets.push(packet('option fall-through'))
  })
  return Buffer.concat([...packets, Buffer.from(FLUSH)])
}
