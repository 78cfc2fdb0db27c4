import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

t.test(
  'a clone checks out the new default branch, also when the server dies right after its event',
  async (t) => {
    const server = await startTestServer(t)
    const { events } = server.services
    const call = (method: string, path: string, body: object) =>
      server.fetch('alice', `/api/v1/${path}`, { method, body: JSON.stringify(body) })
    await server.as('alice')
    const made = await call('POST', 'user/repos', { name: 'app', auto_init: true })
    const { id }: { id: number } = JSON.parse(await made.text())
    await call('POST', 'repos/alice/app/branches', { new_branch_name: 'next' })
    const { append } = events
    const dying: EventStore['append'] = async (stream, appended, expected) => {
      const place = await append.call(events, stream, appended, expected)
      if (appended.some(({ type }) => type === 'RepositoryEdited')) throw new StoreUnavailable('died')
      return place
    }
    events.append = dying
    t.equal((await call('PATCH', 'repos/alice/app', { default_branch: 'next' })).status, 503)
    events.append = append
    const head = () => readFile(join(gitDirOf(server.services, id), 'HEAD'), 'utf8')
    await until('git names the branch', async () => (await head()) === 'ref: refs/heads/next\n')
  },
)
