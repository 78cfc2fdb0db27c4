/** Measures the cost of sealed texts during the catch-up of read models: the same log, clear and sealed. */
import { join } from 'node:path'
import { pino } from 'pino'
import { secretCollections } from '../src/auth/secrets.ts'
import { createTextKeys } from '../src/auth/text-keys.ts'
import { sealTexts } from '../src/events/sealing/sealed-store.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { createProjector } from '../src/projections/projector/projector.ts'
import { openSqliteReadStore } from '../src/projections/store/sqlite/sqlite.ts'
import { READ_MODELS } from '../src/projections/views/views.ts'
import { seedEvents } from './seed/events.ts'
import { median, type Row, ratioRow } from './table.ts'

/** Maximum additional cost of sealed texts, as a ratio. */
const MAX_RATIO = 1.15
const DEADLINE_MS = 600_000

async function opened(directory: string, isSealed: boolean) {
  const name = isSealed ? 'sealed' : 'clear'
  const stored = openSqliteEventStore(join(directory, `${name}.db`))
  const secrets = openSqliteReadStore(join(directory, `${name}-secrets.db`), 'FULL')
  await secrets.prepare(secretCollections)
  const events = sealTexts(stored, createTextKeys(secrets))
  const close = async () => void (await Promise.all([events.close(), secrets.close()]))
  return { stored, events, close }
}

/** Microseconds of processor time (user) for each event, from the first to the last. */
async function catchUp(directory: string, isSealed: boolean, round: number, count: number): Promise<number> {
  const { events, close } = await opened(directory, isSealed)
  const views = openSqliteReadStore(join(directory, `views-${isSealed}-${round}.db`))
  const projector = createProjector({ log: pino({ level: 'error' }), events, views, models: READ_MODELS })
  const before = process.cpuUsage()
  await projector.start()
  if (!(await projector.caughtUp(DEADLINE_MS))) throw new Error('the read models did not catch up')
  const { user } = process.cpuUsage(before)
  await projector.stop()
  await views.close()
  await close()
  return user / count
}

/** `pulls`: number of pull requests, and of issues, in the logs. */
export async function measureSealing(directory: string, pulls: number, rounds: number): Promise<Row[]> {
  const author = { id: 1, login: 'admin' }
  const owner = { ...author, kind: 'user' } as const
  let count = 0
  for (const isSealed of [false, true]) {
    const { stored, events, close } = await opened(directory, isSealed)
    const repositories = [{ name: 'seal', pulls, issues: pulls }]
    count = await seedEvents(isSealed ? events : stored, { owner, author, repositories })
    await close()
  }
  const times = { clear: [] as number[], sealed: [] as number[] }
  // Alternating, so that other load affects both. The first round compiles the code.
  for (let round = 0; round <= rounds; round++) {
    const clear = await catchUp(directory, false, round, count)
    const sealed = await catchUp(directory, true, round, count)
    if (round === 0) continue
    times.clear.push(clear)
    times.sealed.push(sealed)
  }
  const [clear, sealed] = [median(times.clear), median(times.sealed)]
  const each = (micros: number) => `${micros.toFixed(1)} us/event`
  const work = `catch-up of ${count.toLocaleString('en')} events with sealed texts, user time`
  return [ratioRow(work, each(sealed), each(clear), sealed / clear, { atMost: MAX_RATIO })]
}
