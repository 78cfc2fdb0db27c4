/**
 * `npm run hostile [-- --quick] [--only "unread answers,…"] [--together] [--holders]`: attacks a server while honest
 * clients use it. For each attack, and for all at once (`--together`: only for these), it prints the latency of honest
 * clients with and without the attack, and the delay of the server's event loop; with `--holders` also the code that
 * blocked it. It does not fail when a goal is missed.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { AttackCommand } from '../attack-process.ts'
import { startChild } from '../child.ts'
import { environmentOf } from '../log.ts'
import type { LoopDelay } from '../loop-delay.ts'
import type { Held } from '../loop-holders.ts'
import type { Memory, ServerReady } from '../server-process.ts'
import { milliseconds, percentile, printTable, type Row, ratioRow } from '../table.ts'
import { ATTACKS } from './attacks.ts'
import { behaveWell, KINDS, type Sample } from './honest.ts'
import { type Stage, setStage } from './stage.ts'

const GOAL = 3
const GOAL_LOOP_MS = 20

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    together: { type: 'boolean', default: false },
    holders: { type: 'boolean', default: false },
  },
})
const names = Object.keys(ATTACKS)
const only = options.only?.split(',').map((name) => name.trim())
const unknown = only?.filter((name) => !names.includes(name)) ?? []
if (unknown.length > 0) {
  console.error(`--only: ${unknown.join(', ')} is not one of: ${names.join(', ')}`)
  process.exit(2)
}
const wanted = names.filter((name) => only?.includes(name) ?? true)
const seconds = options.quick ? 5 : 20

/** The latencies of a phase by kind, beside those without an attack. */
function rowsOf(attack: string, alone: readonly Sample[], beside: readonly Sample[]): Row[] {
  return KINDS.flatMap((kind) => {
    const of = (all: readonly Sample[]) => all.filter((one) => one.kind === kind).map(({ ms }) => ms)
    const [now, then] = [percentile(of(beside), 0.99), percentile(of(alone), 0.99)]
    const work = `${attack}: p99 of a ${kind}`
    // On a busy host, a short phase may have no data, which counts as a missed goal.
    if (Number.isNaN(now) || Number.isNaN(then)) {
      const goal = `<= ${GOAL}`
      return [{ work, measured: 'no data', ceiling: '', ratio: undefined, goal, met: false }]
    }
    const failures = beside.filter((one) => one.kind === kind && one.failure !== undefined)
    const failed = failures.length === 0 ? '' : `, ${failures.length} of ${of(beside).length} failed`
    for (const { failure } of failures.slice(0, 2)) console.error(`${attack}: ${kind}: ${failure}`)
    const row = ratioRow(work, `${milliseconds(now)}${failed}`, `${milliseconds(then)} alone`, now / then, {
      atMost: GOAL,
    })
    return [{ ...row, met: row.met === true && failures.length === 0 }]
  })
}

/**
 * On a busy host other processes also delay the loop, so only the blocked time counts. It includes waiting for other
 * threads of the server (garbage collection, the lock of file threads).
 */
const loopRow = (phase: string, { p99, max, held }: LoopDelay): Row => ({
  work: `${phase}: delay of the event loop`,
  measured: `p99 ${milliseconds(p99)}, most ${milliseconds(max)}${held === undefined ? '' : `; held ${milliseconds(held)}`}`,
  ceiling: '',
  ratio: undefined,
  goal: `< ${GOAL_LOOP_MS} ms`,
  met: (held ?? max) < GOAL_LOOP_MS,
})

/** Returns the busy time of all processors, in milliseconds. */
const busyMs = () =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0)

/** The server's own share of processor time. The rest is git, attackers, honest clients and other work. */
function processorRow(
  phase: string,
  { wall, busy, server }: { wall: number; busy: number; server: number },
): Row {
  const percent = (ms: number) => `${Math.round((100 * ms) / wall)} %`
  const work = `${phase}: processors`
  const measured = `${percent(busy)} of ${cpus().length}00 %, the server ${percent(server)}`
  return { work, measured, ceiling: '', ratio: undefined, goal: '', met: undefined }
}

async function run(directory: string): Promise<Row[]> {
  const environment = {
    ...environmentOf(join(directory, 'data')),
    ...(options.holders && { PROFILE_LOOP: '1' }),
  }
  const server = await startChild<ServerReady>('server', environment)
  const attacker = await startChild<object>('attack')
  const stage: Stage = {
    url: server.ready.url,
    directory: join(directory, 'work'),
    honest: 4,
    lines: options.quick ? 200_000 : 2_000_000,
  }
  await setStage(stage, environment.ADMIN_PASSWORD)

  async function phase(name: string, attacks: readonly string[]) {
    await attacker.ask<object>({ stage, names: attacks } satisfies AttackCommand)
    await server.ask<LoopDelay>({ what: 'loop delay' })
    const before = { at: performance.now(), busy: busyMs() }
    const samples = await behaveWell(stage, name.replaceAll(/\W+/g, '-'), seconds)
    const processors = { wall: performance.now() - before.at, busy: busyMs() - before.busy }
    const delays: LoopDelay = await server.ask({ what: 'loop delay' })
    if (options.holders) {
      for (const { ms, stacks } of await server.ask<Held[]>({ what: 'loop holders' })) {
        console.error(`${name}: held ${milliseconds(ms)}`)
        for (const [stack, part] of stacks) console.error(`  ${milliseconds(part)} ${stack}`)
      }
    }
    await attacker.ask<object>({ stage, names: [] } satisfies AttackCommand)
    return { samples, delays, processors: { ...processors, server: delays.processor } }
  }

  await phase('warm up', [])
  const rows: Row[] = []
  const phases = options.together ? [] : wanted.map((name): [string, string[]] => [name, [name]])
  if (wanted.length > 1 || options.together) phases.push(['all at once', wanted])
  for (const [name, attacks] of phases) {
    console.error(`${name} …`)
    // Measured right before the attack, because other load on the host changes.
    const alone = await phase(`before ${name}`, [])
    if (rows.length === 0) rows.push(loopRow('without an attack', alone.delays))
    const { samples, delays, processors } = await phase(name, attacks)
    rows.push(...rowsOf(name, alone.samples, samples), loopRow(name, delays), processorRow(name, processors))
  }
  const { peak }: Memory = await server.ask({ what: 'memory' })
  const measured = `${Math.round(peak)} MB`
  rows.push({
    work: 'peak memory of the server',
    measured,
    ceiling: '',
    ratio: undefined,
    goal: '',
    met: undefined,
  })
  await attacker.stop()
  await server.stop()
  return rows
}

const directory = await mkdtemp(join(tmpdir(), 'mergelog-hostile-'))
try {
  printTable(await run(directory))
} catch (error) {
  console.error('the measurement could not be finished:', error)
  process.exitCode = 1
} finally {
  await rm(directory, { recursive: true, force: true })
}
// After a failure, children may still run. They end when this process disconnects.
process.exit()
