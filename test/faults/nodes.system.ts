import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Fault } from '../../faults/plan.ts'
import { runFaults } from '../../faults/run.ts'
import { doubles } from '../../faults/stores.ts'

const SEED = 7

t.test(
  'two nodes behind a proxy, each request to the next one, and one is killed: all that was acknowledged is there, branches agree with the log, nothing is twice, verify is sound',
  async (t) => {
    t.comment(`seed ${SEED}`)
    const directory = await mkdtemp(join(tmpdir(), 'mergelog-faults-test-'))
    t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
    const stores = await doubles(directory)
    t.teardown(() => stores.end())
    const fault: Fault = { how: 'kill', server: 0, store: undefined, after: 'merges', afterMs: 100, forMs: 0 }
    const lines: string[] = []
    const isSound = await runFaults({
      stores,
      directory,
      name: 'app',
      nodes: 2,
      plan: [fault],
      seconds: 3600,
      seed: SEED,
      print: (line) => lines.push(line),
    })
    t.match(lines.at(-1), /^doubles, round 1 of 1: killed node 1, .*; nothing lost, sound; healthy after /)
    t.ok(isSound)
  },
)
