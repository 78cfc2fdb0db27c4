/** The measured server: a child process on a seeded data directory. */
import type { Sizes } from './bench.ts'
import type { Child } from './child.ts'
import type { Load, LoadCommand } from './load-process.ts'
import type { ServerReady } from './server-process.ts'

export interface Target {
  server: Child<ServerReady>
  dataDir: string
  sizes: Sizes
  admin: Admin
}

export interface Admin {
  id: number
  login: string
  password: string
  token: string
}

/** Sends a request to the API as the site admin. @throws for any status but 2xx, which ends the run */
export async function api<T>(
  { server, admin }: Target,
  method: string,
  path: string,
  body?: object,
): Promise<T> {
  const answer = await fetch(`${server.ready.url}/api/v1${path}`, {
    method,
    headers: { authorization: `token ${admin.token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return JSON.parse(text || 'null')
}

/** Runs the load generator. @throws when a request fails, which ends the run */
export async function loadOf(load: Child<object>, command: LoadCommand): Promise<Load> {
  const answer: Load = await load.ask(command)
  if (answer.failed > 0) {
    throw new Error(`${answer.failed} of the requests to ${command.url}${command.write?.path ?? ''} failed`)
  }
  return answer
}
