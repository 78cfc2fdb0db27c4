/**
 * Turns of commands within this node, where it is enough that others' writes are noticed by the revision of the stream.
 * The key names a stream. When a store stands still, those who wait fail with the one before them.
 */

import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { isOutage } from '../../events/store/event-store.ts'

export const inTurn = createKeyedMutex(undefined, isOutage)
