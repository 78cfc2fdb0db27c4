/** The refs of a repository as the log has them. */
import { decode } from '../../events/codec.ts'
import type { ExpectedRevision } from '../../events/store/event-store.ts'
import { gitStream } from '../../events/streams.ts'
import type { Services } from '../../services/services.ts'

export interface RecordedRefs {
  /** Object ids by full ref name. */
  refs: ReadonlyMap<string, string>
  /** The revision that an append after these refs expects. */
  revision: Exclude<ExpectedRevision, 'any' | 'stream-exists'>
}

/** Reads the whole ref stream of a repository. */
export async function recordedRefs(
  { events }: Pick<Services, 'events'>,
  repoId: number,
): Promise<RecordedRefs> {
  const refs = new Map<string, string>()
  let revision: RecordedRefs['revision'] = 'no-stream'
  for await (const recorded of events.readStream(gitStream(repoId))) {
    revision = recorded.revision
    const event = decode(recorded)
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, to } of event.data.refs) {
      if (to === null) refs.delete(ref)
      else refs.set(ref, to)
    }
  }
  return { refs, revision }
}
