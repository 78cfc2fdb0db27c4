/** The child processes of a measurement: the server and the load generator need separate ones. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

export interface Child<Ready> {
  ready: Ready
  /** Milliseconds until the process was ready. */
  startMs: number
  /** Sends a command and resolves to the next message. */
  ask<Answer>(command: object): Promise<Answer>
  stop(): Promise<void>
}

/** Starts `bench/<name>-process.ts`. It sends a message when it is ready, and then answers one command at a time. */
export async function startChild<Ready>(
  name: 'server' | 'bare' | 'load' | 'attack' | 'proxy',
  environment: Record<string, string> = {},
): Promise<Child<Ready>> {
  // Type stripping would add 25 MB to the measured memory.
  const isMeasured = name === 'server'
  const file = isMeasured
    ? await plainProgram(name)
    : fileURLToPath(new URL(`${name}-process.ts`, import.meta.url))
  const born = performance.now()
  // A session of its own: Linux schedules sessions fairly, and a server does not run in its clients' session.
  const child = fork(file, { env: { ...process.env, ...environment }, detached: true })
  const ready: Ready = await nextMessage(child, name)
  return {
    ready,
    startMs: performance.now() - born,
    async ask(command) {
      const answer = nextMessage(child, name)
      child.send(command)
      return await answer
    },
    async stop() {
      const exit = once(child, 'exit')
      child.disconnect()
      await exit
    },
  }
}

/** Builds the process as plain JavaScript in `.bench-build/`. Returns its file. */
async function plainProgram(name: string): Promise<string> {
  const inCheckout = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
  const outfile = inCheckout(`.bench-build/${name}-process.js`)
  await build({
    entryPoints: [inCheckout(`bench/${name}-process.ts`)],
    outfile,
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
  })
  return outfile
}

/** Returns the child's next message, typed as the caller expects. @throws when the child ends */
async function nextMessage(child: ChildProcess, name: string) {
  const done = new AbortController()
  try {
    return await Promise.race([
      once(child, 'message', done).then(([message]) => message),
      once(child, 'exit', done).then(([code]) => {
        throw new Error(`the ${name} process ended with ${code}`)
      }),
    ])
  } finally {
    done.abort()
  }
}
