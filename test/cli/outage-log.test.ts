import { pino } from 'pino'
import t from 'tap'
import { oneLinePerOutage } from '../../src/cli/outage-log.ts'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import { GitUnavailable } from '../../src/git/process/errors.ts'

/** Creates a logger with a clock of its own. */
function aLogger() {
  const lines: string[] = []
  let now = 0
  const calls: { call: () => void; at: number }[] = []
  const hooks = {
    logMethod: oneLinePerOutage(
      () => now,
      (call, ms) => void calls.push({ call, at: now + ms }),
    ),
  }
  const log = pino({ hooks }, { write: (line: string) => lines.push(line) })
  function pass(ms: number): void {
    const end = now + ms
    for (;;) {
      const next = calls.findIndex(({ at }) => at <= end)
      const [due] = next < 0 ? [] : calls.splice(next, 1)
      if (due === undefined) break
      now = Math.max(now, due.at)
      due.call()
    }
    now = end
  }
  return { log, lines, pass }
}

t.test('one outage is one line in the log, and one more with its duration when it is over', async (t) => {
  const { log, lines, pass } = aLogger()
  const lost = new StoreUnavailable('EventStoreDB: no connection', { cause: new Error('ECONNREFUSED') })
  for (let n = 0; n < 10_000; n++) {
    log.error({ err: lost }, 'a store does not answer')
    log.child({ process: 'merges' }).warn({ err: lost }, 'a process lost its connection')
    pass(100)
  }
  t.equal(lines.length, 1)
  t.match(lines[0], /"reason":"EventStoreDB: no connection"/)
  t.notMatch(lines[0], /stack/)
  log.warn({ err: new StoreUnavailable('MongoDB does not answer') }, 'another store')
  t.equal(lines.length, 2)
  pass(60_000)
  t.match(lines.slice(2), [
    /"store":"EventStoreDB","seconds":1000,"msg":"a store answers again: it was unavailable for 1000 s"/,
    /"store":"MongoDB","seconds":0,/,
  ])
  log.error({ err: lost }, 'the next outage')
  t.equal(lines.length, 5)
  log.error({ err: new Error('a bug') }, 'anything else')
  log.info('a message without an error')
  t.match(lines.slice(5), [/"msg":"anything else"/, /"msg":"a message without an error"/])
  t.match(lines[5], /stack/)
})

t.test('a full disk is one outage, whichever component detects it', async (t) => {
  const { log, lines, pass } = aLogger()
  const noSpace = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  for (let n = 0; n < 1000; n++) {
    log.error(
      { err: new GitUnavailable("the push can't be written to the journal", { cause: noSpace }) },
      'no',
    )
    log.warn(
      { err: new StoreUnavailable("the read models can't be written: database or disk is full") },
      'no',
    )
    log.error({ err: noSpace }, 'a file')
    pass(100)
  }
  pass(60_000)
  t.match(lines, [
    /"level":50,.*"reason":"the push can't be written to the journal".*"msg":"the disk is full; further lines about this are left out until it has space"/,
    /"seconds":100,"msg":"the disk has space again: it was full for 100 s"/,
  ])
  t.equal(lines.length, 2)
})

t.test('the two embedded stores are told apart by name', async (t) => {
  const { log, lines, pass } = aLogger()
  log.error({ err: new StoreUnavailable("the event log can't be written: disk I/O error") }, 'no')
  log.error({ err: new StoreUnavailable("the read models can't be written: disk I/O error") }, 'no')
  pass(60_000)
  t.match(lines.slice(2), [/"store":"the event log"/, /"store":"the read models"/])
})

t.test('a refusal without an outage of a store is not logged as one', async (t) => {
  const { log, lines, pass } = aLogger()
  log.error({ err: new StoreUnavailable('this server is behind the others') }, 'no')
  log.error({ err: new StoreUnavailable('stream issue-1.1 is written too slowly') }, 'no')
  pass(60_000)
  t.match(lines, [
    /"reason":"this server is behind the others".*"msg":"requests are refused;/,
    /"msg":"requests are accepted again, after 0 s"/,
  ])
  t.equal(lines.length, 2)
  for (const line of lines) t.notMatch(line, /"store"/)
})
