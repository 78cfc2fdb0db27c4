/** Clients that request a clone and do not read it. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { packet } from '../../src/git/http/pkt-line.ts'
import { rawClient, requestText } from '../http/raw-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { commit, userGit } from './client.ts'
import { gitProcesses } from './git-server.ts'

/** More than the connection, the server and git buffer for a client. */
const LARGE = 48 * 1024 * 1024

const lines: string[] = []
const server = await startTestServer(
  t,
  { LOG_LEVEL: 'error', GIT_READ_SLOTS: '1', GIT_GRACE_MS: '4000', GIT_MIN_RATE_BYTES: '1GiB' },
  { write: (line: string) => void lines.push(line) },
)
const alice = await server.as('alice')
const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'large' })
const dir = `${server.services.gitDir}/${repository.id}.git`

t.test(
  "line 1: a client that does not read upload-pack's answer: its git process is ended and its slot is free",
  async (t) => {
    // git sends it as it is stored: without compression, to save time.
    await userGit(dir, ['config', 'core.compression', '0'])
    const blob = await userGit(dir, ['hash-object', '-w', '--stdin'], randomBytes(LARGE))
    const tree = await userGit(dir, ['mktree'], `100644 blob ${blob}\tlarge\n`)
    const head = await userGit(dir, ['commit-tree', tree], 'large\n')
    await userGit(dir, ['update-ref', 'refs/heads/main', head])
    const small = await commit(dir, 'small', { f: '1' }, [])
    await userGit(dir, ['update-ref', 'refs/heads/small', small])

    const working = () => gitProcesses(`upload-pack\0--stateless-rpc\0--strict\0${dir}`)
    const { slots } = server.services.gitLimits.reads
    const ask = (want: string) => {
      const body = `${packet('command=fetch\n')}${packet('object-format=sha1')}0001${packet(`want ${want}\n`)}${packet('done\n')}0000`
      const headers = {
        'Content-Type': 'application/x-git-upload-pack-request',
        'Git-Protocol': 'version=2',
        'Content-Length': String(body.length),
      }
      return { body, text: requestText('POST', '/alice/large.git/git-upload-pack', headers, body) }
    }
    const unread = rawClient(t, server.url, ask(head).text, { reads: false })
    await until('git works for the client', async () => (await working()).length > 0)
    t.same(slots.counts(), { running: 1, waiting: 0 })
    await until('git is ended', async () => (await working()).length === 0)
    await until('the slot is free', () => slots.counts().running === 0)

    // The only slot serves the next one, while the first still holds its connection.
    const next = await server.fetch('alice', '/alice/large.git/git-upload-pack', {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-upload-pack-request', 'git-protocol': 'version=2' },
      body: ask(small).body,
    })
    t.equal(next.status, 200)
    t.match(await next.text(), /PACK/)

    // The received part must not look complete.
    let got = 0
    unread.socket.on('data', (part) => {
      got += part.length
    })
    await unread.closed()
    t.ok(got < LARGE, `${got} bytes`)
    t.same(lines, [], 'and it is no error of the server')
  },
)
