/** Starts a server in its own process, as `npm start` does, so that a test can kill it or measure its memory. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type t from 'tap'
import { PROGRAM_ENVIRONMENT, program } from './program.ts'
import { ADMIN_PASSWORD } from './server-template.ts'

/**
 * Resolves when the server has printed its URL. The process is killed at the end of the test. `before`: a module that
 * is loaded before the server's code (`faults/effects` kills it at a point). `main`: another file than the server's
 * own. `within`: the words of a command that starts it.
 */
export async function startServerProcess(
  test: Pick<typeof t, 'teardown'>,
  DATA_DIR: string,
  environment: Record<string, string> = {},
  { before, main, within = [] }: { before?: string; main?: string; within?: readonly string[] } = {},
): Promise<{ child: ChildProcess; url: string }> {
  const env = {
    ...PROGRAM_ENVIRONMENT,
    DATA_DIR,
    ADMIN_PASSWORD,
    PORT: '0',
    GRPC_PORT: '0',
    LOG_LEVEL: 'error',
    ...environment,
  }
  const loaded = before === undefined ? [] : ['--import', pathToFileURL(program(before)).href]
  const started = main === undefined ? [...loaded, program('src/main')] : [...loaded, main]
  const [command = '', ...words] = [...within, process.execPath, ...started]
  const child = spawn(command, words, {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  test.teardown(() => void child.kill('SIGKILL'))
  // Its children may keep its output open a while longer.
  child.once('exit', () => child.stdout.destroy())
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /listens on (http:\S+)/.exec(line)?.[1]
    if (url === undefined) continue
    child.stdout.resume()
    return { child, url }
  }
  throw new Error('the server ended before it listened')
}
