/** Two nodes: every list is in the order of creation, whichever node created the things. */
import t from 'tap'
import { takeNumber } from '../../../src/commands/execution/sequences.ts'
import type { EventStore } from '../../../src/events/store/event-store.ts'
import { idsStream } from '../../../src/events/streams.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer } from '../../start-server.ts'
import { aContext, writerOf } from '../../stores.ts'
import { until } from '../../until.ts'

const environment = await sharedStores(t)
const nodes = [
  await startTestServer(t, { ...environment, NODE_NAME: 'one' }),
  await startTestServer(t, { ...environment, NODE_NAME: 'two' }),
] as const
const repo = '/api/v1/repos/alice/app'

async function send<T>(node: number, method: string, path: string, body?: object): Promise<T> {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await nodes[node % 2]?.fetch('alice', path, init)
  if (answer === undefined || answer.status >= 300) throw new Error(`${method} ${path}: ${answer?.status}`)
  return JSON.parse(await answer.text())
}

await nodes[0].as('alice')
await send(0, 'POST', '/api/v1/user/repos', { name: 'app', auto_init: true })
await until('the other node knows it', async () => (await nodes[1].fetch('alice', repo)).status === 200)
const { number } = await send<{ number: number }>(0, 'POST', `${repo}/issues`, { title: 'First' })

const takeMany = (events: EventStore, sequence: string) =>
  Promise.all(Array.from({ length: 60 }, () => takeNumber(writerOf(events), aContext(), sequence)))

/** Creates a thing of that name, and lists names, oldest first. */
interface Kind {
  sequence: Parameters<typeof idsStream>[0]
  make(node: number, name: string): Promise<unknown>
  names(): Promise<string[]>
}

const KINDS: Record<string, Kind> = {
  comments: {
    sequence: 'comment',
    make: (node, body) => send(node, 'POST', `${repo}/issues/${number}/comments`, { body }),
    names: async () =>
      (await send<{ body: string }[]>(1, 'GET', `${repo}/issues/${number}/comments`)).map(({ body }) => body),
  },
  issues: {
    sequence: 'issue',
    make: (node, title) => send(node, 'POST', `${repo}/issues`, { title }),
    names: async () => {
      const found = await send<{ title: string }[]>(1, 'GET', `${repo}/issues?limit=50`)
      return found.map(({ title }) => title).reverse()
    },
  },
}

for (const [kind, { sequence, make, names }] of Object.entries(KINDS)) {
  t.test(`${kind} of several nodes are listed in the order in which they were made`, async (t) => {
    const made: string[] = []
    for (let i = 0; i < 3; i++) {
      // Both nodes are busy, so they would reserve ids ahead.
      await Promise.all(nodes.map(({ services: { events } }) => takeMany(events, idsStream(sequence))))
      for (const node of [i, i + 1]) {
        const name = `${kind} ${made.length}`
        await make(node, name)
        made.push(name)
      }
    }
    t.same(
      (await names()).filter((name) => name.startsWith(kind)),
      made,
    )
  })
}
