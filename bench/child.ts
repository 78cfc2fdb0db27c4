/** The processes of a measurement: what serves and what loads it must not share one. */
import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface Child<Ready> {
  ready: Ready
  /** Milliseconds from the process's birth to its being ready. */
  startMs: number
  /** Sends a question and resolves to the next message. */
  ask<Answer>(question: object): Promise<Answer>
  stop(): Promise<void>
}

/** Starts `bench/<name>-process.ts`, which says when it is ready and then answers one question at a time. */
export async function startChild<Ready>(
  name: 'server' | 'bare' | 'load',
  environment: Record<string, string> = {},
): Promise<Child<Ready>> {
  const born = performance.now()
  const file = fileURLToPath(new URL(`${name}-process.ts`, import.meta.url))
  const child = fork(file, { env: { ...process.env, ...environment } })
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

/** What a child says next; it says it in the type that its asker names. */
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

/** The child's side: says that it is ready, answers one question after the other until the parent lets go. */
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
