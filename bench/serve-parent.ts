/** The child's side of a measurement, without modules that would change the measured server. */
import { on } from 'node:events'

/** Sends `ready`, then answers commands one by one until the parent disconnects. */
export async function serveParent<Command>(
  ready: object,
  answer: (command: Command) => Promise<object>,
  end: () => Promise<void>,
): Promise<never> {
  const commands = on(process, 'message', { close: ['disconnect'] })
  process.send?.(ready)
  for await (const [command] of commands) process.send?.(await answer(command))
  await end()
  process.exit(0)
}
