/** Nodes of one MongoDB in one process. The test moves the time and sends the beats. */
import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { createMembership } from '../../../src/events/nodes/membership.ts'
import { openMongoDatabase } from '../../../src/projections/store/mongodb/database.ts'
import { startMongoDouble } from '../../doubles/mongodb.ts'

export type Member = ReturnType<typeof createMembership>

export async function nodeWorld(t: Test) {
  const double = await startMongoDouble({ port: 0, file: join(t.testdir(), 'mongodb.db') })
  t.teardown(() => double.close())
  const database = openMongoDatabase(double.url, 'the nodes')
  t.teardown(() => database.close())
  const log = pino({ level: 'silent' })
  let time = 0
  let asleep = 0

  /** A node whose clock shows another time than the others, at the same speed. */
  function node(name: string): Member {
    const offset = Math.floor(Math.random() * 1_000_000)
    const clocks = { now: () => time + offset, timeOfDay: () => time + asleep }
    return createMembership({ ...database, name, log, ...clocks })
  }

  return {
    double,
    database,
    log,
    node,
    /** Nodes that have joined and know each other. */
    async joined(...names: string[]): Promise<Member[]> {
      const nodes = names.map(node)
      for (const one of [...nodes, ...nodes]) await one.tick()
      return nodes
    },
    wait(ms: number) {
      time += ms
    },
    /** The machine is paused: only the time of day continues. */
    sleep(ms: number) {
      asleep += ms
    },
    /** Seconds in which these nodes beat and the others are suspended. */
    async seconds(count: number, ...beating: Member[]) {
      for (let i = 0; i < count; i++) {
        time += 1000
        for (const one of beating) await one.tick()
      }
    },
  }
}

/** A node of a test with these names. @throws when it is not there */
export function at<T>(list: readonly T[], index: number): T {
  const found = list[index]
  if (found === undefined) throw new Error(`there is no number ${index}`)
  return found
}
