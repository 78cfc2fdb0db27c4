/** Asks the server that runs on a data directory. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { Type } from 'typebox'
import { checked, checkOf } from '../checked-json.ts'
import { hasCode, isMissing } from '../disk.ts'
import type { RebuildProgress } from '../projections/rebuild.ts'
import { controlSocket } from './socket.ts'

/** The server could not do what was asked. */
export class ControlFailed extends Error {
  override readonly name = 'ControlFailed'
}

const Progress = Type.Object({
  model: Type.String(),
  events: Type.Integer(),
  position: Type.Integer(),
  end: Type.Integer(),
  done: Type.Boolean(),
})
const isLine = checkOf(Type.Union([Progress, Type.Object({ failed: Type.String() })]))

/** While it stops, a server answers so. */
const STOPPING = 503

const wentAway = (cause?: unknown) => new ControlFailed('the server went away before it was done', { cause })

/**
 * Has the running server make read models anew, all of them if none is named. Whoever stops iterating stops it.
 * @throws ControlFailed when it can't, or goes away meanwhile
 */
export async function* askToRebuild(
  dataDir: string,
  models: readonly string[],
): AsyncGenerator<RebuildProgress> {
  const query = new URLSearchParams()
  for (const model of models) query.append('model', model)
  const answer = await post(controlSocket(dataDir), `/rebuild?${query}`)
  let last: RebuildProgress | undefined
  try {
    for await (const json of linesOf(answer)) {
      const line = checked(isLine, JSON.parse(json))
      if ('failed' in line) throw new ControlFailed(line.failed)
      last = line
      yield line
    }
  } finally {
    answer.destroy()
  }
  if (last?.done !== true) throw wentAway()
}

async function post(socketPath: string, path: string): Promise<IncomingMessage> {
  const asking = request({ socketPath, path, method: 'POST' })
  const answered: Promise<IncomingMessage[]> = once(asking, 'response')
  // What breaks once there is an answer breaks the answer, too; nobody listens here any more.
  asking.on('error', () => {})
  asking.end()
  const [answer] = await answered.catch((error: unknown) => {
    // It listens to its own user alone.
    if (hasCode(error, 'EACCES')) throw error
    throw isMissing(error) || hasCode(error, 'ECONNREFUSED')
      ? new ControlFailed(
          'DATA_DIR is used by another command, or by a server that is still starting; try again',
          { cause: error },
        )
      : wentAway(error)
  })
  if (answer === undefined) throw wentAway()
  if (answer.statusCode === 200) return answer
  const said = await text(answer).catch((error: unknown) => {
    throw wentAway(error)
  })
  if (answer.statusCode === STOPPING) throw wentAway()
  throw new ControlFailed(`the server answered ${answer.statusCode}: ${said.slice(0, 1000)}`)
}

/** Whole lines; each ends with a line feed. @throws ControlFailed when the answer is cut off */
async function* linesOf(answer: IncomingMessage): AsyncGenerator<string> {
  let rest = ''
  answer.setEncoding('utf8')
  try {
    for await (const chunk of answer) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    throw wentAway(error)
  }
  if (rest !== '') throw wentAway()
}
