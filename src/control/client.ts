/** Asks the server that runs on a data directory. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { createInterface } from 'node:readline'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
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
const Line = Type.Union([Progress, Type.Object({ failed: Type.String() })])

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
    for await (const text of createInterface({ input: answer })) {
      const line = Value.Parse(Line, JSON.parse(text))
      if ('failed' in line) throw new ControlFailed(line.failed)
      last = line
      yield line
    }
  } finally {
    answer.destroy()
  }
  if (last?.done !== true) throw new ControlFailed('the server went away before it was done')
}

async function post(socketPath: string, path: string): Promise<IncomingMessage> {
  const asking = request({ socketPath, path, method: 'POST' })
  asking.end()
  const answered = once(asking, 'response').catch((error: Error) => {
    throw new ControlFailed(`the server does not answer: ${error.message}`, { cause: error })
  })
  const [answer]: IncomingMessage[] = await answered
  if (answer === undefined) throw new ControlFailed('the server does not answer')
  return answer
}
