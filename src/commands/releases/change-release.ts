/** Appends changes of releases to the log. */
import type { ReleaseEvent } from '../../events/catalog/releases.ts'
import { releaseStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'
import { releases } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import type { ReleaseState } from './release.decider.ts'

/** Applies a command to a release. Serializes its changes on this node: clients upload all its files at once. */
export function changeRelease(
  services: Services,
  context: CommandContext,
  id: number,
  step: string,
  decide: (state: ReleaseState) => Decision<ReleaseEvent>,
): Promise<ReleaseState> {
  return services.writeState.mutex(releaseStream(id), () =>
    releases.change(services, context, id, step, decide),
  )
}
