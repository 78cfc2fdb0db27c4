/** A server at its limit of open files. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t from 'tap'
import { rejectWhenOutOfDescriptors } from '../../../src/http/connections/descriptor-limit.ts'
import {
  connectionsWithin,
  MIN_OPEN_FILES,
  openFilesLimit,
  requireOpenFiles,
} from '../../../src/storage/open-files.ts'
import { PROGRAM_ENVIRONMENT, program } from '../../program.ts'

const full = (code: string) => Object.assign(new Error('accept'), { code, syscall: 'accept' })

t.test('a server at its limit of open files refuses new connections and continues', async (t) => {
  const server = createServer()
  let freed = 0
  rejectWhenOutOfDescriptors(server, () => {
    freed += 1
  })
  const comes = () => {
    const socket = new Socket()
    server.emit('connection', socket)
    return socket
  }
  t.notOk(comes().destroyed)
  // It has no free descriptor of its own until one is closed.
  const next = openSync('/dev/null', 'r')
  closeSync(next)
  server.emit('error', full('EMFILE'))
  const given = openSync('/dev/null', 'r')
  t.not(given, next, 'it gives up the descriptor that it has in reserve')
  t.equal(freed, 0)
  t.ok(comes().destroyed, 'who is taken with it goes at once')
  server.emit('error', full('ENFILE'))
  t.equal(freed, 1, 'without a reserve, it gives up a connection')
  closeSync(given)
  await nextIteration()
  t.notOk(comes().destroyed)
  server.emit('error', full('EMFILE'))
  t.equal(freed, 1, 'the reserve is there again')
  await nextIteration()
})

t.test('connections leave descriptors for other work', async (t) => {
  const set = { maxConnections: 4096, maxConnectionsPerAddress: 512, host: 'x' }
  t.equal(connectionsWithin(set, 1_048_576), set)
  t.equal(connectionsWithin(set, Number.POSITIVE_INFINITY), set)
  t.strictSame(connectionsWithin(set, 1024), {
    maxConnections: 256,
    maxConnectionsPerAddress: 128,
    host: 'x',
  })
  const line = (limit: string) => `Limit   Soft Limit  Hard Limit  Units\nMax open files   ${limit}   files\n`
  t.equal(openFilesLimit(line('1024    4096')), 1024)
  t.equal(openFilesLimit(line('unlimited  unlimited')), undefined)
  t.equal(openFilesLimit(''), undefined)
  requireOpenFiles(MIN_OPEN_FILES)
  t.throws(() => requireOpenFiles(MIN_OPEN_FILES - 1), { name: 'OperatorError' })
})

t.test(
  'a server with too low a limit of open files does not start, and gives the reason in one line',
  { skip: process.platform === 'linux' ? false : 'only Linux says how many files may be open' },
  async (t) => {
    const command = 'unset NODE_OPTIONS; ulimit -n 128; exec "$0" "$@"'
    const args = ['-c', command, process.execPath, program('src/main')]
    const child = spawn('bash', args, {
      env: { ...PROGRAM_ENVIRONMENT, DATA_DIR: t.testdir(), PORT: '0', GRPC_PORT: '0' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => void child.kill('SIGKILL'))
    let said = ''
    child.stderr.on('data', (chunk) => {
      said += chunk
    })
    const [code] = await once(child, 'close')
    t.equal(code, 1)
    t.match(said, /^mergelog: the server may have only 128 files open at once, and needs 256: [^\n]*\n$/)
  },
)
