import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { CommandFailed } from '../../src/cli/explain.ts'
import { askToRebuild, authorizationOf, NoServer, serverUrl } from '../../src/cli/running-server.ts'
import { loadConfig } from '../../src/config/config.ts'

const step = { model: 'pulls', events: 250, position: 250, end: 500, done: false }
const SERVER_STOPPED = new CommandFailed('the server stopped before the work was done')
const NDJSON = { 'content-type': 'application/x-ndjson; charset=utf-8' }

/** Starts a server with this request listener. Resolves to its URL. */
async function serverThat(test: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address: AddressInfo | string | null = server.address()
  if (address === null || typeof address === 'string') throw new Error('it listens on a port')
  return `http://127.0.0.1:${address.port}`
}

async function stepsOf(url: string): Promise<number[]> {
  const positions: number[] = []
  for await (const { position } of askToRebuild(url, 'token T', ['pulls', 'issues'])) positions.push(position)
  return positions
}

t.test('progress is read line by line, wherever the network cuts the lines', async (t) => {
  let asked: unknown
  const url = await serverThat(t, async (request, response) => {
    asked = [request.method, request.url, request.headers.authorization, JSON.parse(await text(request))]
    response.writeHead(200, NDJSON)
    const lines = [step, { ...step, model: 'pülls', position: 500, done: true }, { rebuilt: [] }]
    for (const line of lines) {
      for (const byte of Buffer.from(`${JSON.stringify(line)}\n`)) response.write(Buffer.of(byte))
    }
    response.end()
  })
  t.same(await stepsOf(url), [250, 500])
  t.same(asked, ['POST', '/api/v1/admin/rebuild', 'token T', { models: ['pulls', 'issues'] }])
})

t.test('a server that stops at any moment gives a one-line error', async (t) => {
  const answers: Record<string, RequestListener> = {
    'before it answers': (request) => request.socket.destroy(),
    'in its answer': (_, response) => {
      response.writeHead(200, NDJSON).write(`${JSON.stringify(step)}\n`, () => response.socket?.destroy())
    },
    'in a line': (_, response) => {
      response.writeHead(200, NDJSON).write('{"model":"pul', () => response.socket?.destroy())
    },
    'in its last line': (_, response) => {
      response.writeHead(200, NDJSON).end(`${JSON.stringify(step)}\n{"model":"pul`)
    },
    'before the outcome': (_, response) => {
      response.writeHead(200, NDJSON).end(`${JSON.stringify({ ...step, done: true })}\n`)
    },
    'while it stops': (_, response) => response.writeHead(503).end('{"message":"Service Unavailable"}'),
    'in a refusal': (_, response) => {
      response.writeHead(500, { 'content-length': 100 })
      response.write('{', () => response.socket?.destroy())
    },
  }
  for (const [when, answer] of Object.entries(answers)) {
    await t.test(when, async (t) => {
      await t.rejects(stepsOf(await serverThat(t, answer)), SERVER_STOPPED)
    })
  }
})

t.test("the server's error message is passed on", async (t) => {
  await t.test('in its answer', async (t) => {
    const failing = await serverThat(t, (_, response) => {
      response.writeHead(200, NDJSON).end('{"failed":"the fold is broken"}\n')
    })
    await t.rejects(stepsOf(failing), new CommandFailed('the fold is broken'))
  })
  await t.test('or instead of it', async (t) => {
    const refusing = await serverThat(t, (_, response) => response.writeHead(403).end('{"message":"no"}'))
    await t.rejects(stepsOf(refusing), new CommandFailed(`${refusing}/api/v1/admin/rebuild answered 403: no`))
  })
  await t.test('also when it is not a Mergelog server', async (t) => {
    const page = await serverThat(t, (_, response) => response.writeHead(200).end('<html>'))
    await t.rejects(stepsOf(page), new CommandFailed(`${page}/api/v1/admin/rebuild answered 200: <html>`))
  })
})

t.test('a port without a listener means that no server runs', async (t) => {
  let url = ''
  await t.test('a free port', async (t) => {
    url = await serverThat(t, () => {})
  })
  const message = `no server answers at ${url}: connect ECONNREFUSED ${new URL(url).host}`
  await t.rejects(stepsOf(url), new NoServer(message))
})

t.test("the environment gives the server's URL", async (t) => {
  t.equal(serverUrl(loadConfig({})), 'http://127.0.0.1:3000')
  t.equal(serverUrl(loadConfig({ HOST: '::1', PORT: '80' })), 'http://[::1]:80')
  t.equal(serverUrl(loadConfig({ TLS_CERT: 'a', TLS_KEY: 'b' })), 'https://127.0.0.1:3000')
  t.equal(serverUrl(loadConfig({ PUBLIC_URL: 'https://git.example.org' })), 'https://git.example.org')
})

t.test('a token takes precedence over a password', async (t) => {
  t.equal(authorizationOf('T', 'password'), 'token T')
  t.equal(authorizationOf(undefined, 'pässword'), `Basic ${Buffer.from('admin:pässword').toString('base64')}`)
  t.equal(authorizationOf(undefined, undefined), undefined)
})
