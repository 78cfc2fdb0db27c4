/** Runs `mergelog` as a function call, or as a child process for tests that need one. */
import { type ChildProcess, spawn } from 'node:child_process'
import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { runCommandLine } from '../../src/cli/program.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'

const ARGS = [program('src/cli/mergelog')]

type Environment = Record<string, string>

const environmentOf = (environment: Environment) => ({ ...PROGRAM_ENVIRONMENT, ...environment })

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Runs it in this process to its end. Only one can run at a time, and the test must not print meanwhile. */
export async function mergelog(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  const { env, stdout, stderr } = process
  const { console } = globalThis
  const [out, err] = [new Text(), new Text()]
  process.env = environmentOf(environment)
  setStreams(out, err)
  globalThis.console = new Console(out, err)
  try {
    const code = await runCommandLine(args)
    return { code, stdout: out.text, stderr: err.text }
  } finally {
    process.env = env
    setStreams(stdout, stderr)
    globalThis.console = console
  }
}

/** Collects the written text. */
class Text extends Writable {
  text = ''
  override _write(chunk: unknown, _encoding: string, done: () => void) {
    this.text += chunk
    done()
  }
}

function setStreams(stdout: Writable, stderr: Writable) {
  for (const [name, value] of Object.entries({ stdout, stderr })) {
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true })
  }
}

/** Starts it as a child process, with pipes for its standard output and standard error. */
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
