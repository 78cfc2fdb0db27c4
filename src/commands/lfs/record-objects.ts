/** Records LFS objects of a repository, after their files are on disk. */

import type { LfsEvent, LfsObject } from '../../events/catalog/lfs.ts'
import { decode } from '../../events/codec.ts'
import type { Position } from '../../events/store/event-store.ts'
import { lfsStream } from '../../events/streams.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { append } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'

/** Maximum number of objects in an event, of about 100 bytes each. */
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
    // Without a decision: the same object may be recorded twice.
    await append(services, context, lfsStream(repoId), `lfs ${cause} ${part[0]?.oid}`, [added], 'any')
  }
}

/** Yields the recorded objects of a repository, one event at a time, with its log position. */
export async function* recordedLfsAdditions(
  { events }: Pick<Services, 'events'>,
  repoId: number,
): AsyncGenerator<{ objects: readonly LfsObject[]; position: Position }> {
  for await (const recorded of events.readStream(lfsStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'LfsObjectsAdded') yield { objects: event.data.objects, position: event.position }
  }
}

/** Returns the ids of the recorded objects of a repository. */
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
