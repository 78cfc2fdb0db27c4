/** Work that a running server does, if any; otherwise the command. */
import type { Config } from '../config/config.ts'
import { DataDirInUse, lockDataDir } from '../storage/data-lock.ts'
import { CommandFailed } from './explain.ts'
import { requireLog } from './open-log.ts'
import { authorizationOf, NoServer, serverUrl } from './running-server.ts'

const CREDENTIALS = 'MERGELOG_TOKEN or ADMIN_PASSWORD'
const OTHERS = 'another command, a server that is still starting, or one at another address (see --url)'

/** Address of a server and the credentials for it. */
export interface ServerArguments {
  url?: string
  token?: string
}

/**
 * Calls the server at `url`, or the one that has locked the data directory; without one, locks it and works locally.
 * @throws CommandFailed when the server cannot be reached or refuses
 */
export async function* serverOrLocal<T>(
  config: Config,
  { url, token }: ServerArguments,
  onServer: (server: string, authorization: string) => AsyncGenerator<T>,
  local: () => AsyncGenerator<T>,
): AsyncGenerator<T> {
  const authorization = authorizationOf(token, config.adminPassword)
  if (url !== undefined) {
    if (authorization === undefined) throw new CommandFailed(`${CREDENTIALS} is needed; see --help`)
    yield* onServer(url.replace(/\/+$/, ''), authorization)
    return
  }
  // Check this before locking: the lock would leave a file in a mistyped directory.
  await requireLog(config)
  let unlock: () => void
  try {
    unlock = lockDataDir(config.dataDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    if (authorization === undefined) {
      throw new CommandFailed(`${error.message}; if it is a server, ${CREDENTIALS} is needed to use it`)
    }
    try {
      yield* onServer(serverUrl(config), authorization)
    } catch (problem) {
      if (!(problem instanceof NoServer)) throw problem
      throw new CommandFailed(`${error.message}, but ${problem.message}. It may be ${OTHERS}`, {
        cause: problem,
      })
    }
    return
  }
  try {
    yield* local()
  } finally {
    unlock()
  }
}

/** Like `serverOrLocal`, for work without progress. Resolves to its result. */
export async function runOnServerOrLocal<T>(
  config: Config,
  server: ServerArguments,
  onServer: (server: string, authorization: string) => Promise<T>,
  local: () => Promise<T>,
): Promise<T> {
  const steps = serverOrLocal(
    config,
    server,
    async function* (url, authorization) {
      yield await onServer(url, authorization)
    },
    async function* () {
      yield await local()
    },
  )
  for await (const done of steps) return done
  throw new Error('nothing was done')
}
