import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { loadConfig } from '../../src/config/config.ts'
import { accountFold } from '../../src/projections/models/users/accounts.fold.ts'
import { openReadStores } from '../../src/server/stores.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { until } from '../until.ts'
import { startMergelog } from './command-line.ts'

const accounts = accountFold.collection

t.test('mergelog rebuild when the server is killed: one line', async (t) => {
  const DATA_DIR = t.testdir()
  await promisify(execFile)(process.execPath, [program('bench/seed/seed'), '--issues', '3000'], {
    env: { ...PROGRAM_ENVIRONMENT, DATA_DIR },
  })
  const environment = { DATA_DIR, ADMIN_PASSWORD, PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'error' }
  const server = startMergelog(t, ['serve'], environment)
  const [line] = await once(createInterface({ input: server.stdout ?? process.stdin }), 'line')
  const PUBLIC_URL = /http:\S+/.exec(line)?.[0] ?? ''
  const rebuilding = startMergelog(t, ['rebuild'], { DATA_DIR, PUBLIC_URL, ADMIN_PASSWORD })
  let stderr = ''
  rebuilding.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = once(rebuilding, 'close')
  // The rebuild has started when the first new documents exist.
  const { generations, secrets } = await openReadStores(loadConfig({ DATA_DIR }))
  const begun = () => generations.spare.range(accounts, { limit: 1 }).catch(() => [])
  await until('the rebuild has begun', async () => {
    if (rebuilding.exitCode !== null) throw new Error(`the command ended early: ${stderr}`)
    return (await begun()).length > 0
  })
  server.kill('SIGKILL')
  await Promise.all([generations.current.close(), secrets.close()])
  t.same(await ended, [1, null])
  t.equal(stderr, 'mergelog: the server stopped before the work was done\n')
})
