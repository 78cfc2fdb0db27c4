/** Programs of ours in processes of their own, which can be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { NODE_ARGS, program } from '../test/program.ts'

export interface Running {
  /** The first group of the line that said that the program is ready. */
  ready: string
  hasEnded(): boolean
  /** Kills it as `kill -9` does. Resolves when it is gone. */
  kill(): Promise<void>
}

const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/**
 * Starts a program, such as `src/main`, and waits for the line that says that it is ready. Everything that it prints
 * goes to the end of the file `log`.
 * @throws Error when the program ends before
 */
export async function startProgram(
  name: string,
  args: readonly string[],
  environment: Record<string, string>,
  log: string,
  isReady: RegExp,
): Promise<Running> {
  const child = spawn(process.execPath, [...NODE_ARGS, program(name), ...args], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  const gone = once(child, 'exit').then(() => void running.delete(child))
  const output = createWriteStream(log, { flags: 'a' })
  child.stdout.pipe(output, { end: false })
  child.stderr.pipe(output, { end: false })
  for await (const line of createInterface(child.stdout)) {
    const ready = isReady.exec(line)?.[1]
    if (ready === undefined) continue
    child.stdout.resume()
    return {
      ready,
      hasEnded: () => !running.has(child),
      async kill() {
        child.kill('SIGKILL')
        await gone
      },
    }
  }
  throw new Error(`${name} ended before it was ready`)
}
