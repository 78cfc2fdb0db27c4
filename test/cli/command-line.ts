/** Runs `mergelog` as a function call, or as a child process for tests that need one. */
import { type ChildProcess, spawn } from 'node:child_process'
import { runCommandLine } from '../../src/cli/program.ts'
import { NODE_ARGS, program } from '../program.ts'

const ARGS = [...NODE_ARGS, program('src/cli/mergelog')]

type Environment = Record<string, string>

const environmentOf = (environment: Environment) => ({ PATH: process.env.PATH ?? '', ...environment })

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Runs it in this process to its end. Only one can run at a time, and nothing else may print meanwhile. */
export async function mergelog(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  const before = process.env
  process.env = environmentOf(environment)
  const stdout = captured(process.stdout)
  const stderr = captured(process.stderr)
  try {
    const code = await runCommandLine(args)
    return { code, stdout: stdout.text(), stderr: stderr.text() }
  } finally {
    stdout.restore()
    stderr.restore()
    process.env = before
  }
}

function captured(stream: NodeJS.WriteStream) {
  const { write } = stream
  let text = ''
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    text += chunk
    const done = rest.at(-1)
    if (typeof done === 'function') done()
    return true
  }
  return {
    text: () => text,
    restore() {
      stream.write = write
    },
  }
}

/** Starts it as a child process. Its standard output and standard error are pipes. */
export function startMergelog(
  test: { teardown(work: () => void): void },
  args: readonly string[],
  environment: Environment,
): ChildProcess {
  const child = spawn(process.execPath, [...ARGS, ...args], {
    env: environmentOf(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  test.teardown(() => void child.kill('SIGKILL'))
  return child
}
