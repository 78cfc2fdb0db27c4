/** An interrupted commit of files is whole or absent after the next start, and the log agrees with git. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'

const run = promisify(execFile)
const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-contents-'))
t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))

type Events = TestServer['services']['events']

/** What the store does at the append of a commit's move, by repository. */
const DEATHS = {
  'before-the-branch-moves': undefined,
  'before-the-move-is-recorded': async () => {
    throw new StoreUnavailable('killed')
  },
  'before-the-answer': async (events: Events, ...args: Parameters<Events['append']>) => {
    await events.append(...args)
    throw new StoreUnavailable('killed')
  },
}
const names = Object.keys(DEATHS)

async function movesOf({ services }: TestServer, repoId: number) {
  const moves = []
  for await (const recorded of services.events.readStream(gitStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated') moves.push({ cause: event.data.cause, to: event.data.refs[0]?.to })
  }
  return moves
}

const post = (server: TestServer, name: string) =>
  server.fetch('alice', `/api/v1/repos/alice/${name}/contents/a`, {
    method: 'POST',
    headers: { 'Idempotency-Key': 'k' },
    body: JSON.stringify({ content: 'YQ==' }),
  })

t.test('a kill between any two steps of a commit leaves the whole commit or nothing', async (t) => {
  const first = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'silent' })
  const alice = await first.as('alice')
  const ids = new Map<string, number>()
  for (const name of names) {
    const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true })
    ids.set(name, data.id ?? 0)
  }
  const tip = async (name: string) => {
    const dir = `${first.services.gitDir}/${ids.get(name)}.git`
    return (await run('git', [`--git-dir=${dir}`, 'rev-parse', 'main'])).stdout.trim()
  }
  const before = new Map(await Promise.all(names.map(async (name) => [name, await tip(name)] as const)))
  const { events } = first.services
  const { append, lastPosition } = events
  const real = Object.assign(Object.create(events), { append: append.bind(events) })
  for (const [name, die] of Object.entries(DEATHS)) {
    if (die === undefined) {
      events.lastPosition = async () => {
        throw new StoreUnavailable('killed')
      }
    } else {
      events.append = (stream, ...rest) =>
        stream === gitStream(ids.get(name) ?? 0)
          ? die(real, stream, ...rest)
          : append.call(events, stream, ...rest)
    }
    t.equal((await post(first, name)).status, 503, name)
    Object.assign(events, { append, lastPosition })
  }
  await first.stop()

  const server = await startTestServer(t, { DATA_DIR })
  for (const name of names) {
    const moves = await movesOf(server, ids.get(name) ?? 0)
    const isMade = name !== 'before-the-branch-moves'
    t.equal(moves.length, isMade ? 2 : 1, `${name}: recorded once`)
    t.equal(moves.at(-1)?.to, await tip(name), `${name}: the log agrees with git`)
    t.equal((await tip(name)) !== before.get(name), isMade)
    const { data } = await (await server.as('alice')).repos.repoGetBranch('alice', name, 'main')
    t.equal(data.commit?.id, await tip(name))
  }
  const retried = await post(server, 'before-the-answer')
  t.equal(retried.status, 201, 'a retry gets the answer of the first attempt')
  t.match(await retried.json(), { commit: { sha: await tip('before-the-answer') } })
  t.equal((await post(server, 'before-the-branch-moves')).status, 201, 'what was not done can be done')
})
