/**
 * Finds the issue or pull request that an earlier attempt of a retried request has opened, before its labels,
 * milestone, assignees and branches are looked up: they may be deleted since.
 */
import { numbersStream } from '../../events/streams.ts'
import type { WriteServices } from '../../services/services.ts'
import type { issues, pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { earlierNumber } from '../execution/sequences.ts'

/**
 * Returns the number of the issue or pull request; undefined when there is none yet, or when the read model lags.
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
export async function openedByEarlierAttempt(
  services: WriteServices,
  context: CommandContext,
  kind: Pick<typeof issues | typeof pulls, 'ifDone'>,
  repoId: number,
): Promise<number | undefined> {
  const index = await earlierNumber(services, context, numbersStream(repoId))
  if (index === undefined) return undefined
  const state = await kind.ifDone(services, context, { repoId, index }, 'open')
  return state === undefined ? undefined : index
}
