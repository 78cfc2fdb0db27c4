/** Tells those who observe this process of each git process that it starts, and of its end. */
import type { Exit } from './launcher.ts'

/** Is called when a process is started, by whoever needs it, with git's command. What it returns is called at its end. */
export type ProcessWatcher = (command: string) => (exit: Exit) => void

const watchers = new Set<ProcessWatcher>()

/** Watches all git processes of this process. The returned function ends the watch. */
export function watchProcesses(watcher: ProcessWatcher): () => void {
  watchers.add(watcher)
  return () => watchers.delete(watcher)
}

/** Says that a process starts. The returned function says that it has ended; both codes are null if it never began. */
export function processStarts(command: string): (exit: Exit) => void {
  if (watchers.size === 0) return () => {}
  const ends = [...watchers].map((watcher) => watcher(command))
  return (exit) => {
    for (const end of ends) end(exit)
  }
}

/** git's command in its arguments: `diff-tree` in `--git-dir=… diff-tree …`. */
export const commandIn = (args: readonly string[]): string =>
  args.find((arg) => !arg.startsWith('-')) ?? 'git'
