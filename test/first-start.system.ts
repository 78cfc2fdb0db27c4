/** A first start that fails, and the following starts. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { startMergelog } from './cli/command-line.ts'
import { dataDirectory } from './health.ts'
import { until } from './until.ts'

/** A port with another listener, until the test ends. */
async function takenPort(t: Test): Promise<string> {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const address = other.address()
  return `${typeof address === 'object' ? address?.port : ''}`
}

const FREE = { PORT: '0', GRPC_PORT: '0', METRICS_PORT: '0', LOG_LEVEL: 'silent' }

/** Returns the output of a start; `use` is called with its URL. */
async function startedOnce(
  t: Test,
  environment: Record<string, string>,
  use: (url: string, said: string) => Promise<void> = async () => {},
) {
  const child = startMergelog(t, ['serve'], { ...FREE, ...environment })
  const errors = child.stderr === null ? '' : text(child.stderr)
  const ended = once(child, 'close')
  let said = ''
  child.stdout?.on('data', (chunk) => {
    said += chunk
  })
  const url = () => /^Mergelog listens on (http:\S+)$/m.exec(said)?.[1]
  await until('it has started or failed', () => child.exitCode !== null || url() !== undefined)
  if (url() !== undefined) {
    await use(url() ?? '', said)
    child.kill('SIGTERM')
  }
  const [code] = await ended
  return { code, said, errors: await errors }
}

const signIn = async (url: string, password: string) => {
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  return (await fetch(`${url}/api/v1/user`, { headers: { authorization } })).status
}

t.test("a failed first start must not lose the admin's password", async (t) => {
  const DATA_DIR = await dataDirectory(t)
  for (const setting of ['PORT', 'GRPC_PORT', 'METRICS_PORT']) {
    const port = await takenPort(t)
    const failed = await startedOnce(t, { DATA_DIR, [setting]: port })
    t.match(failed, { code: 1, said: '' }, 'it prints no password')
    t.equal(
      failed.errors,
      `mergelog: ${setting} is "${port}", but another program listens on 127.0.0.1:${port}: stop it, or set ${setting} to a free port\n`,
    )
  }

  let password = ''
  await t.test('the next start prints it', async (t) => {
    const next = await startedOnce(t, { DATA_DIR }, async (_url, said) => {
      password = /user "admin", password "([^"]+)" \(shown only this once\)/.exec(said)?.[1] ?? ''
    })
    t.equal(next.code, 0)
    t.not(password, '')
  })
  await t.test(
    'until the first sign-in, each start prints how to set a new one, at every LOG_LEVEL',
    async (t) => {
      for (const LOG_LEVEL of ['trace', 'info', 'fatal']) {
        const { said } = await startedOnce(t, { DATA_DIR, LOG_LEVEL })
        t.match(said, /has not been used yet[\s\S]*set-password admin\n/)
        t.notMatch(said, password)
      }
    },
  )
  await t.test('after a sign-in, no start does', async (t) => {
    await startedOnce(t, { DATA_DIR }, async (url) => {
      t.equal(await signIn(url, 'another one'), 401)
    })
    await startedOnce(t, { DATA_DIR }, async (url, said) => {
      t.match(said, /set-password admin/, 'a wrong password is no sign-in')
      t.equal(await signIn(url, password), 200)
    })
    const { said } = await startedOnce(t, { DATA_DIR, HOST: 'localhost' }, async (url) => {
      t.equal(await signIn(url, password), 200)
    })
    t.notMatch(said, /admin/)
  })
})
