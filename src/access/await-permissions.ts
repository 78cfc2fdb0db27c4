/** Makes sure that the documents on which rights depend hold all that the log has now. */
import { modelStopped, Refused, refuse } from '../errors/refusal.ts'
import type { Services } from '../services/services.ts'

/** The read models that say who may do what. */
const ABOUT_RIGHTS: ReadonlySet<string> = new Set(['accounts', 'tokens', 'repositories', 'pulls'])

/**
 * Waits until the documents about rights have every event that the log has at this moment. What was taken away before
 * the call, on any server, is taken away in them. @throws Refused (unavailable) when they lag or have stopped
 */
export async function awaitPermissions({
  events,
  projector,
  config,
}: Pick<Services, 'events' | 'projector' | 'config'>): Promise<void> {
  const end = await events.lastPosition()
  const reached = await projector.waitFor(end, config.projectionWaitMs)
  const stopped = projector
    .status()
    .find(({ name, position, stopped }) => stopped !== undefined && position < end && ABOUT_RIGHTS.has(name))
  if (stopped !== undefined) {
    throw new Refused(modelStopped(`the read model ${stopped.name}, which says who may do this, has stopped`))
  }
  if (reached) return
  throw new Refused(refuse.unavailable('the server cannot say now who may do this; try again'))
}
