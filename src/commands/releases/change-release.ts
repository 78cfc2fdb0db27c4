/** Appends changes of releases to the log. */
import type { ReleaseEvent } from '../../events/catalog/releases.ts'
import { releaseStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { releases } from '../aggregates.ts'
import type { CommandContext, Decision } from '../execute.ts'
import { inTurn } from '../turns.ts'
import type { ReleaseState } from './release.ts'

/**
 * Carries out a command on a release. Clients upload all files of a release at once, so its changes take turns on this
 * node instead of meeting each other at the log.
 */
export function changeRelease(
  services: Services,
  context: CommandContext,
  id: number,
  step: string,
  decide: (state: ReleaseState) => Decision<ReleaseEvent>,
): Promise<ReleaseState> {
  return inTurn(releaseStream(id), () => releases.change(services, context, id, step, decide))
}
