/** Opens the sealed texts during a verification, and finds keys that are missing without an erasure. */
import { decode } from '../../events/codec.ts'
import { sealTexts } from '../../events/sealing/sealed-store.ts'
import { isCovered, sealedIn } from '../../events/sealing/sealed-texts.ts'
import type { TextKeys } from '../../events/sealing/text-keys.ts'
import {
  type EventStore,
  LOG_START,
  type Position,
  type RecordedEvent,
} from '../../events/store/event-store.ts'
import type { LogProblem } from '../../events/store/sqlite/check.ts'

/** Maximum number of reported texts. */
const MAX_REPORTED = 100

export interface SealedTexts {
  /** Opens the texts of stored events. Pass them in the order of the log; repetitions are allowed. */
  opened(batch: readonly RecordedEvent[]): Promise<RecordedEvent[]>
  /** Resolves to the number of events with erased texts, and those with lost texts, at most 100. */
  found(): Promise<{ erased: number; lost: LogProblem[] }>
}

export function createSealedTexts(events: EventStore, keys: TextKeys): SealedTexts {
  const texts = sealTexts(events, keys)
  let checked: Position = LOG_START
  /** By stream: events whose texts lack a key, and the reason unless it was destroyed. */
  const closed = new Map<string, { event: RecordedEvent; problem: string }[]>()

  async function check(batch: readonly RecordedEvent[]): Promise<void> {
    const sealed = batch.filter(({ position, data }) => position > checked && sealedIn(data) !== undefined)
    const found = await keys.find(sealed.flatMap(({ data }) => sealedIn(data)?.key ?? []))
    const opened = await texts.opened(sealed)
    for (const [i, event] of sealed.entries()) {
      const key = found.get(sealedIn(event.data)?.key ?? '')
      if (Buffer.isBuffer(key) && !texts.isLost(opened[i])) continue
      const problem = Buffer.isBuffer(key)
        ? 'its text cannot be opened with its key'
        : key === undefined
          ? 'the key of its text is missing without an erasure'
          : 'the key of its text is destroyed, but no erasure is recorded'
      closed.set(event.stream, [...(closed.get(event.stream) ?? []), { event, problem }])
    }
    checked = Math.max(checked, batch.at(-1)?.position ?? LOG_START)
  }

  return {
    async opened(batch) {
      await check(batch)
      return texts.opened(batch)
    },
    async found() {
      let erased = 0
      const lost: LogProblem[] = []
      for (const [stream, ofStream] of closed) {
        // The text may have been erased since the log was read.
        const erasures = []
        for await (const recorded of events.readStream(stream)) {
          if (recorded.type !== 'TextsErased') continue
          const event = decode(recorded)
          if (event.type === 'TextsErased') erasures.push(event)
        }
        for (const { event, problem } of ofStream) {
          if (erasures.some((erasure) => isCovered(event, erasure))) erased += 1
          else if (lost.length < MAX_REPORTED) {
            lost.push({ problem, position: event.position, stream, revision: event.revision })
          }
        }
      }
      return { erased, lost }
    },
  }
}
