/** Numbers that are given only once: the number is the revision of the event that takes it, plus one. */
import type { EventStore } from '../events/event-store.ts'
import { append, type CommandContext } from './execute.ts'

/**
 * Takes the next number of a sequence, from 1. Gaps after a crash are fine; a number is never given twice.
 * A retried request (Idempotency-Key) takes the number that it took before.
 */
export async function takeNumber(
  store: EventStore,
  context: CommandContext,
  sequence: string,
): Promise<number> {
  const { revision } = await append(
    store,
    context,
    sequence,
    'take',
    [{ type: 'NumberTaken', data: { sequence } }],
    'any',
  )
  return revision + 1
}
