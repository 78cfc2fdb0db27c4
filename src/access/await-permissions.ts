/** Waits until the read models of permissions are current. */
import { modelStopped, Refused, refuse } from '../errors/refusal.ts'
import type { Services } from '../services/services.ts'

/** Read models that permissions depend on. */
const ACCESS_MODELS: ReadonlySet<string> = new Set(['accounts', 'tokens', 'repositories', 'pulls'])

/**
 * Waits until the permission documents have all present events of the log, so that a permission revoked before the
 * call, on any server, is revoked in them.
 * @throws Refused (unavailable) when they lag or have stopped
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
    .find(({ name, position, stopped }) => stopped !== undefined && position < end && ACCESS_MODELS.has(name))
  if (stopped !== undefined) {
    throw new Refused(modelStopped(`the read model ${stopped.name}, which has the permissions, has stopped`))
  }
  if (reached) return
  throw new Refused(refuse.unavailable('the server cannot check your permission now; try again'))
}
