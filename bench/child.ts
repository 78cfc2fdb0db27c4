/** The child processes of a measurement: the server and the load generator need separate ones. */
import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface Child<Ready> {
  ready: Ready
  /** Milliseconds until the process was ready. */
  startMs: number
  /** Sends a question and resolves to the next message. */
  ask<Answer>(question: object): Promise<Answer>
  stop(): Promise<void>
}

/**
 * Starts `bench/<name>-process.ts`. It sends a message when it is ready, and then answers one question at a
 * time.
 */
export async function startChild<Ready>(
  name: 'server' | 'bare' | 'load' | 'attack' | 'proxy',
  environment: Record<string, string> = {},
): Promise<Child<Ready>> {
  const born = performance.now()
  const file = fileURLToPath(new URL(`${name}-process.ts`, import.meta.url))
  // A session of its own: Linux shares processors out among sessions, and a server runs in none of its clients'.
  const child = fork(file, { env: { ...process.env, ...environment }, detached: true })
  const ready: Ready = await nextMessage(child, name)
  return {
    ready,
    startMs: performance.now() - born,
    async ask(question) {
      const answer = nextMessage(child, name)
      child.send(question)
      return await answer
    },
    async stop() {
      const exit = once(child, 'exit')
      child.disconnect()
      await exit
    },
  }
}

/** The child's next message. It has the type that the caller expects. @throws when the child ends */
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

/**
 * The child's side: sends `ready`, then answers one question after the other until the parent disconnects.
 */
export async function serveParent<Question>(
  ready: object,
  answer: (question: Question) => Promise<object>,
  end: () => Promise<void>,
): Promise<never> {
  const questions = on(process, 'message', { close: ['disconnect'] })
  process.send?.(ready)
  for await (const [question] of questions) process.send?.(await answer(question))
  await end()
  process.exit(0)
}
