/** Records which large files a repository has. The files are on disk then. */

import type { LfsEvent, LfsObject } from '../../events/catalog/lfs.ts'
import { decode } from '../../events/codec.ts'
import type { Position } from '../../events/store/event-store.ts'
import { lfsStream } from '../../events/streams.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { append } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'

/** About 100 bytes each, so an event stays far below what an append may have. */
const OBJECTS_PER_EVENT = 1000

type Added = Extract<LfsEvent, { type: 'LfsObjectsAdded' }>['data']

export async function recordLfsObjects(
  services: WriteServices,
  context: CommandContext,
  repoId: number,
  cause: Added['cause'],
  objects: readonly LfsObject[],
): Promise<void> {
  for (let i = 0; i < objects.length; i += OBJECTS_PER_EVENT) {
    const part = objects.slice(i, i + OBJECTS_PER_EVENT).map(({ oid, size }) => ({ oid, size }))
    const added: LfsEvent = { type: 'LfsObjectsAdded', data: { repoId, cause, objects: part } }
    // Nothing to decide: an object that comes twice is the same.
    await append(services, context, lfsStream(repoId), `lfs ${cause} ${part[0]?.oid}`, [added], 'any')
  }
}

/** The objects of a repository, as the log has them: those of one event at a time, with its place in the log. */
export async function* recordedLfsAdditions(
  { events }: Pick<Services, 'events'>,
  repoId: number,
): AsyncGenerator<{ objects: readonly LfsObject[]; position: Position }> {
  for await (const recorded of events.readStream(lfsStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'LfsObjectsAdded') yield { objects: event.data.objects, position: event.position }
  }
}

/** The ids of the objects of a repository, as the log has them. */
export async function recordedLfsObjects(
  services: Pick<Services, 'events'>,
  repoId: number,
): Promise<ReadonlySet<string>> {
  const oids = new Set<string>()
  for await (const { objects } of recordedLfsAdditions(services, repoId)) {
    for (const { oid } of objects) oids.add(oid)
  }
  return oids
}
