/**
 * A process that appends to a log until a test kills it:
 *
 *   node sqlite-writer.ts FILE [BALLAST]
 *
 * It prints a line of JSON for each append: `{"stream","revision","ids"}` when the append was acknowledged, or
 * `{"refused"}` with the name of the error. After a refusal it waits for a line on its standard input. If the line is
 * `stop`, it ends. Otherwise it removes the ballast (to make room on a full disk) and continues.
 */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setImmediate } from 'node:timers/promises'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { newEvent } from './event-store-contract.ts'

const [file = '', ballast] = process.argv.slice(2)
const store = openSqliteEventStore(file)
const orders = createInterface({ input: process.stdin })

async function appendTo(stream: string, text: string): Promise<boolean> {
  const events = [newEvent({ text }), newEvent({ text })]
  try {
    const { revision } = await store.append(stream, events, 'any')
    process.stdout.write(`${JSON.stringify({ stream, revision, ids: events.map(({ id }) => id) })}\n`)
    return true
  } catch (error) {
    const refused = error instanceof Error ? error.name : String(error)
    process.stdout.write(`${JSON.stringify({ refused })}\n`)
    return false
  }
}

// The pauses differ, so that at any moment one stream is between its append and its answer.
for (const [pause, stream] of ['one', 'two', 'three', 'four'].entries()) keepAppending(stream, pause)

async function keepAppending(stream: string, pause: number): Promise<never> {
  while (true) {
    if (!(await appendTo(stream, 'x'.repeat(2000)))) {
      const [order] = await once(orders, 'line')
      if (order === 'stop') process.exit()
      if (ballast !== undefined) rmSync(ballast, { force: true })
    }
    for (let turn = 0; turn < pause; turn++) await setImmediate()
  }
}
