/** The child's side of a measurement, without modules that would change the measured server. */
import { on } from 'node:events'

/** Sends `ready`, then answers questions one by one until the parent disconnects. */
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
