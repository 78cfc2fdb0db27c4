/** Reports each command to MongoDB to the observers of this process. */
import type { MongoClient } from 'mongodb'

/** Called with the name of a sent command. The returned function is called with its result. */
export type CommandWatcher = (command: string) => (failed: boolean) => void

const watchers = new Set<CommandWatcher>()

/** Watches the commands of all connections opened after this call. Returns a function that ends the watch. */
export function watchCommands(watcher: CommandWatcher): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

/** Enables the driver's events only when there are observers. */
export const monitoring = () => ({ monitorCommands: watchers.size > 0 })

/** Reports the commands of a client that was created with `monitoring`. */
export function reportCommands(client: MongoClient): void {
  if (watchers.size === 0) return
  const running = new Map<number, ((failed: boolean) => void)[]>()
  const ended = (requestId: number, failed: boolean) => {
    for (const end of running.get(requestId) ?? []) end(failed)
    running.delete(requestId)
  }
  client.on('commandStarted', ({ requestId, commandName }) => {
    running.set(
      requestId,
      [...watchers].map((watcher) => watcher(commandName)),
    )
  })
  client.on('commandSucceeded', ({ requestId }) => ended(requestId, false))
  client.on('commandFailed', ({ requestId }) => ended(requestId, true))
}
