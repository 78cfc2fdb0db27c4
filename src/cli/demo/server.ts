/** Client of the demo: the API, git, and the upgrade queries over gRPC. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Client, credentials } from '@grpc/grpc-js'
import { loadDescriptors } from '../../upgrade/grpc-descriptors.ts'
import { CommandFailed } from '../explain.ts'

const run = promisify(execFile)

export interface DemoServer {
  /** Without a slash at the end. */
  url: string
  /** A site admin. */
  user: string
  password: string
  grpc: { address: string; isTls: boolean }
}

interface Call {
  body?: object
  /** Sends the request on behalf of this user. */
  as?: string
  /** Expected statuses. */
  expect: readonly number[]
}

const authorizationOf = ({ user, password }: DemoServer) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/** Sends a request. `json` is undefined when the answer is empty. @throws CommandFailed for another status */
export async function call(
  server: DemoServer,
  method: string,
  path: string,
  { body, as, expect }: Call,
): Promise<{ status: number; json: unknown }> {
  const answer = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      authorization: authorizationOf(server),
      ...(as !== undefined && { sudo: as }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  const { status } = answer
  if (!expect.includes(status)) {
    throw new CommandFailed(
      `${method} ${path}: answered ${status} instead of ${expect.join(' or ')}: ${text}`,
    )
  }
  return { status, json: text === '' ? undefined : JSON.parse(text) }
}

/** Runs git in `dir` under the demo's own name. The password is in the environment: other users can see arguments. */
export async function git(server: DemoServer, dir: string, ...args: string[]): Promise<string> {
  const identity = ['-c', 'user.name=Mergelog demo', '-c', 'user.email=demo@localhost']
  const { stdout } = await run('git', [...identity, ...args], {
    cwd: dir,
    env: {
      ...process.env,
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'http.extraHeader',
      GIT_CONFIG_VALUE_0: `Authorization: ${authorizationOf(server)}`,
    },
  })
  return stdout.trim()
}

/** Queries the current plan of the upgrade Query service. */
export async function currentPlanOverGrpc({ grpc }: DemoServer): Promise<unknown> {
  const { CurrentPlan } = (await loadDescriptors()).service('cosmos.upgrade.v1beta1.Query')
  if (CurrentPlan === undefined) throw new Error('proto/ has no query CurrentPlan')
  const { path, requestSerialize, responseDeserialize } = CurrentPlan
  const client = new Client(grpc.address, grpc.isTls ? credentials.createSsl() : credentials.createInsecure())
  try {
    return await new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + 10_000 }
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, options, (error, answer) => {
        if (error === null) resolve(answer)
        else
          reject(new CommandFailed(`gRPC at ${grpc.address} does not answer: ${error.message}; see --grpc`))
      })
    })
  } finally {
    client.close()
  }
}
