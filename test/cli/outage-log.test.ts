import { pino } from 'pino'
import t from 'tap'
import { oneLinePerOutage } from '../../src/cli/outage-log.ts'
import { StoreUnavailable } from '../../src/events/event-store.ts'

t.test('one outage is one line in the log', async (t) => {
  const lines: string[] = []
  let now = 0
  const hooks = { logMethod: oneLinePerOutage(() => now) }
  const log = pino({ hooks }, { write: (line: string) => lines.push(line) })
  const lost = new StoreUnavailable('EventStoreDB: no connection', { cause: new Error('ECONNREFUSED') })
  for (let n = 0; n < 10_000; n++) {
    now += 100
    log.error({ err: lost }, 'a store does not answer')
    log.child({ process: 'merges' }).warn({ err: lost }, 'a process lost its connection')
  }
  t.equal(lines.length, 1)
  t.match(lines[0], /"reason":"EventStoreDB: no connection"/)
  t.notMatch(lines[0], /stack/)
  log.warn({ err: new StoreUnavailable('MongoDB does not answer') }, 'another store')
  t.equal(lines.length, 2)
  now += 60_000
  log.error({ err: lost }, 'the next outage')
  t.equal(lines.length, 3)
  log.error({ err: new Error('a bug') }, 'anything else')
  log.info('a message without an error')
  t.match(lines.slice(3), [/"msg":"anything else"/, /"msg":"a message without an error"/])
  t.match(lines[3], /stack/)
})
