/** Tells those who observe this process of each command to MongoDB. */
import type { MongoClient } from 'mongodb'

/** Is called where a command is sent, with its name. What it returns is called when it is answered. */
export type CommandWatcher = (command: string) => (failed: boolean) => void

const watchers = new Set<CommandWatcher>()

/** Watches the commands of all connections that are opened from now on. The returned function ends the watch. */
export function watchCommands(watcher: CommandWatcher): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

/** The option that makes the driver tell: without it, commands cost nothing more. */
export const monitoring = () => ({ monitorCommands: watchers.size > 0 })

/** Tells of the commands of a client that was made with `monitoring`. */
export function tellCommands(client: MongoClient): void {
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
