/** Pushes of very many refs: issue 15, lines 1 and 4. */
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import t from 'tap'
import { packet } from '../../src/git/http/pkt-line.ts'
import { findMissingObject } from '../../src/git/push/missing-objects.ts'
import { readPushRequest, refusalReport } from '../../src/git/push/push-request.ts'
import { gitIn, workTree } from '../git-client.ts'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'

const ZERO = '0'.repeat(40)
const idOf = (n: number) => (n + 1).toString(16).padStart(40, 'a')

/** Counts the iterations of the event loop during `work`. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isOver = false
  const count = () => {
    turns += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await work()
  isOver = true
  return turns
}

t.test(
  'line 4: a push of 40,000 refs is read and refused in slices, and other requests continue',
  async (t) => {
    const lines = Array.from({ length: 40_000 }, (_, i) =>
      packet(`${ZERO} ${idOf(i)} refs/heads/b${i}${i === 0 ? '\0report-status side-band-64k' : ''}`),
    )
    const body = Readable.from([Buffer.concat([...lines, Buffer.from('0000')])], { objectMode: false })
    let push: Awaited<ReturnType<typeof readPushRequest>> | undefined
    const reading = await turnsDuring(async () => {
      push = await readPushRequest(body)
    })
    t.ok(reading > 3, `${reading} turns while it was read`)
    if (push === undefined) throw new Error('the push was not read')
    const { commands } = push
    t.equal(commands.length, lines.length)
    const whole = push
    const answering = await turnsDuring(() => refusalReport(whole, new Map([['refs/heads/b1', 'protected']])))
    t.ok(answering > 3, `${answering} turns while its answer was made`)
  },
)

t.test(
  'line 1: a push names at most MAX_PUSH_REFS refs: its user gets the reason, and no ref moves',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent', MAX_PUSH_REFS: '60' })
    const alice = await server.as('alice')
    const { data } = await alice.user.createCurrentUserRepo({ name: 'many', auto_init: true })
    const dir = `${server.services.gitDir}/${data.id}.git`
    const work = await workTree(t, server.gitUrl('alice', 'alice/many'))
    await work.git('fetch', '-q', 'origin')
    const refs = (count: number) =>
      Array.from({ length: count }, (_, i) => `origin/main:refs/heads/branch-${i}`)
    const before = await gitIn(dir, ['for-each-ref'])
    await t.rejects(work.git('push', 'origin', ...refs(61)), {
      message: /a push may name at most 60 refs: push them in parts/,
    })
    t.equal(await gitIn(dir, ['for-each-ref']), before)
    await work.git('push', '-q', 'origin', ...refs(60))
    t.equal((await gitIn(dir, ['for-each-ref'])).split('\n').length, 61)

    const head = await work.git('rev-parse', 'origin/main')
    const to = (count: number, id: (n: number) => string) =>
      Array.from({ length: count }, (_, i) => ({ ref: `refs/heads/new-${i}`, from: null, to: id(i) }))
    t.equal(await findMissingObject(dir, to(60, idOf), 0), idOf(0), 'git need not look for each of them')
    t.equal(await findMissingObject(dir, to(60, idOf), 59), idOf(59))
    t.equal(await findMissingObject(dir, to(60, idOf), 60), undefined, 'the pack may bring all of them')
    t.equal(
      await findMissingObject(
        dir,
        to(60, () => head),
        0,
      ),
      undefined,
      'the repository has it',
    )
  },
)

t.test(
  'line 1: a client that sends a whole push before it reads gets its refusal, whatever the error',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'eager', auto_init: true })
    const size = 20 * 1024 * 1024
    const long = (i: number) => packet(`${ZERO} ${idOf(i)} refs/heads/${'x'.repeat(1000)}${i}`)
    const beginnings = {
      'HTTP/1.1 400': packet('no command'),
      'HTTP/1.1 413': Buffer.concat(Array.from({ length: 9000 }, (_, i) => long(i))),
    }
    for (const [status, beginning] of Object.entries(beginnings)) {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1').pause()
      t.teardown(() => socket.destroy())
      const head = [
        'POST /alice/eager.git/git-receive-pack HTTP/1.1',
        'Host: x',
        `Authorization: ${basic('alice')}`,
        'Content-Type: application/x-git-receive-pack-request',
        `Content-Length: ${size}`,
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n`)
      socket.write(beginning)
      await new Promise((sent) => socket.write(Buffer.alloc(size - beginning.length), sent))
      const answer = await new Promise<Buffer>((resolve) => socket.once('data', resolve).resume())
      t.match(answer.toString('latin1'), new RegExp(`^${status} `))
      socket.destroy()
    }
  },
)
