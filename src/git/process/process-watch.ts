/** Notifies watchers when a git process of this server starts and ends. */
import type { Exit } from './launcher.ts'

/** Called when a process starts, with git's command. The returned function is called at its end. */
export type ProcessWatcher = (command: string) => (exit: Exit) => void

const watchers = new Set<ProcessWatcher>()

/** Adds a watcher. Returns a function that removes it. */
export function watchProcesses(watcher: ProcessWatcher): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

/** Reports the start of a process. The returned function reports its end; both codes are null if it failed to start. */
export function processStarts(command: string): (exit: Exit) => void {
  if (watchers.size === 0) return () => {}
  const ends = [...watchers].map((watcher) => watcher(command))
  return (exit) => {
    for (const end of ends) end(exit)
  }
}

/** Finds git's command in its arguments: `diff-tree` in `--git-dir=… diff-tree …`. */
export const commandIn = (args: readonly string[]): string =>
  args.find((arg) => !arg.startsWith('-')) ?? 'git'
