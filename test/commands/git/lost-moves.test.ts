/** A request that was interrupted after git moved its ref, and before the log had it, took effect. */
import t from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'
import { movesOf, REQUESTS } from './ref-requests.ts'

t.test('a retry before recovery finds the move that the log could not record', async (t) => {
  const { server, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
  const { repoId, call } = await repository(t, 'app')
  const { events } = server.services
  const { append } = events
  for (const { what, path, body, ref, cause, status = 201 } of REQUESTS.slice(0, 5)) {
    events.append = (stream, ...rest) => {
      if (stream === gitStream(repoId)) throw new StoreUnavailable('away')
      return append.call(events, stream, ...rest)
    }
    const post = () => call('alice', 'POST', path, body, { 'Idempotency-Key': what })
    t.equal((await post()).status, 503, what)
    events.append = append
    t.equal((await post()).status, status, what)
    // A release accepts an existing tag.
    const isRecorded = async () => (await movesOf(server, repoId, ref))[0]?.cause === cause
    await until(`${what} is recorded`, isRecorded)
    t.match((await movesOf(server, repoId, ref))[0], { by: 'alice' })
  }
})
