import { writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import t, { type Test } from 'tap'
import { askToRebuild, ControlFailed } from '../../src/control/client.ts'
import { controlSocket } from '../../src/control/socket.ts'

const step = { model: 'pulls', events: 250, position: 250, end: 500, done: false }
const WENT_AWAY = new ControlFailed('the server went away before it was done')

/** A data directory whose server answers so. */
async function serverThat(test: Test, answer: RequestListener): Promise<string> {
  const dataDir = test.testdir()
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(controlSocket(dataDir), resolve))
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return dataDir
}

async function stepsOf(dataDir: string): Promise<number[]> {
  const positions: number[] = []
  for await (const { position } of askToRebuild(dataDir, ['pulls', 'issues'])) positions.push(position)
  return positions
}

t.test('progress comes line by line, however it is cut on its way', async (t) => {
  let asked = ''
  const dataDir = await serverThat(t, (request, response) => {
    asked = request.url ?? ''
    const text = `${JSON.stringify(step)}\n${JSON.stringify({ ...step, position: 500, done: true })}\n`
    for (const character of text) response.write(character)
    response.end()
  })
  t.same(await stepsOf(dataDir), [250, 500])
  t.equal(asked, '/rebuild?model=pulls&model=issues')
})

t.test('a server that goes away is told in one line, whenever it goes', async (t) => {
  const answers: Record<string, RequestListener> = {
    'before it answers': (request) => request.socket.destroy(),
    'in its answer': (_, response) => {
      response.write(`${JSON.stringify(step)}\n`, () => response.socket?.destroy())
    },
    'in a line': (_, response) => {
      response.write('{"model":"pul', () => response.socket?.destroy())
    },
    'in its last line': (_, response) => response.end(`${JSON.stringify(step)}\n{"model":"pul`),
    'after a line that is not the last': (_, response) => response.end(`${JSON.stringify(step)}\n`),
    'while it stops': (_, response) => response.writeHead(503).end('{"message":"Service Unavailable"}'),
    'in a refusal': (_, response) => {
      response.writeHead(500, { 'content-length': 100 })
      response.write('{', () => response.socket?.destroy())
    },
  }
  for (const [when, answer] of Object.entries(answers)) {
    await t.test(when, async (t) => {
      await t.rejects(stepsOf(await serverThat(t, answer)), WENT_AWAY)
    })
  }
})

t.test('what the server says when it can not do it is passed on', async (t) => {
  await t.test('in its answer', async (t) => {
    const failing = await serverThat(t, (_, response) => response.end('{"failed":"the fold is broken"}\n'))
    await t.rejects(stepsOf(failing), new ControlFailed('the fold is broken'))
  })
  await t.test('or instead of it', async (t) => {
    const refusing = await serverThat(t, (_, response) => response.writeHead(404).end('{"message":"no"}'))
    await t.rejects(stepsOf(refusing), new ControlFailed('the server answered 404: {"message":"no"}'))
  })
})

t.test('where nobody listens another command has the data directory, or its server starts', async (t) => {
  const message = /is used by another command, or by a server that is still starting/
  const dataDir = t.testdir()
  await t.rejects(stepsOf(dataDir), { name: 'ControlFailed', message })
  // What a server that was killed leaves refuses connections, as a plain file does.
  await writeFile(controlSocket(dataDir), '')
  await t.rejects(stepsOf(dataDir), { name: 'ControlFailed', message })
})
