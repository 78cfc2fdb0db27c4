/** Programs of the project in their own processes, which can be killed or stopped at any moment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { PROGRAM_ENVIRONMENT, program } from '../test/program.ts'

export interface Running {
  /** The first group of the line that reported readiness. */
  ready: string
  hasEnded(): boolean
  /** Kills it as `kill -9` does, also while it is stopped. Resolves when it has exited. */
  kill(): Promise<void>
  /** Sends SIGTERM. Resolves when it has exited. */
  end(): Promise<void>
  /** Stops it (SIGSTOP). Its connections stay open. */
  freeze(): void
  /** Continues it (SIGCONT). */
  thaw(): void
  /** Resolves when it has exited, for any reason. */
  gone: Promise<void>
}

const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})
// Without a listener a signal would end this process and leave the programs running.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/**
 * Starts a program, such as `src/main`, and waits for the line that reports readiness. Appends its output to the file
 * `log`. `before`: a module that is loaded before the program's own code. @throws Error when the program exits before
 * it is ready
 */
export async function startProgram(
  name: string,
  args: readonly string[],
  environment: Record<string, string>,
  log: string,
  isReady: RegExp,
  before?: string,
): Promise<Running> {
  const loaded = before === undefined ? [] : ['--import', pathToFileURL(program(before)).href]
  const child = spawn(process.execPath, [...loaded, program(name), ...args], {
    env: { ...PROGRAM_ENVIRONMENT, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  const gone = once(child, 'exit').then(() => void running.delete(child))
  const output = createWriteStream(log, { flags: 'a' })
  child.stdout.pipe(output, { end: false })
  child.stderr.pipe(output, { end: false })
  const endBy = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    await gone
  }
  for await (const line of createInterface(child.stdout)) {
    const ready = isReady.exec(line)?.[1]
    if (ready === undefined) continue
    child.stdout.resume()
    return {
      ready,
      hasEnded: () => !running.has(child),
      kill: () => endBy('SIGKILL'),
      end: () => endBy('SIGTERM'),
      freeze: () => void child.kill('SIGSTOP'),
      thaw: () => void child.kill('SIGCONT'),
      gone,
    }
  }
  throw new Error(`${name} ended before it was ready; see ${log}`)
}
