/**
 * The test server in its own process, so that a test can kill it and measure its memory. `startGitServerProcess`
 * starts it with the root directory as its argument.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type GitServerHooks, startGitServer } from './git-server.ts'

export interface GitServerProcess {
  url: string
  child: ChildProcess
  /** Peak memory of the process, in bytes. */
  peakMemory(): Promise<number>
  /** Kills it without warning, and resolves when it has exited. */
  kill(): Promise<void>
}

/**
 * With `mode: 'never records'` the log does not answer, so a push stays unrecorded. With 'never decides' the second
 * check of a push hangs: git has all objects, and the process sends `asked`.
 */
export async function startGitServerProcess(
  root: string,
  mode: 'works' | 'never records' | 'never decides' = 'works',
): Promise<GitServerProcess> {
  // A small young generation, so that uncollected garbage doesn't count as memory in use.
  const execArgv = ['--max-semi-space-size=2']
  const child = fork(fileURLToPath(import.meta.url), [root, mode], { execArgv })
  const [url] = await once(child, 'message')
  return {
    url: String(url),
    child,
    async peakMemory() {
      const answer = once(child, 'message')
      child.send('memory?')
      const [bytes] = await answer
      return Number(bytes)
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}

const [, script, root, mode] = process.argv
if (script === fileURLToPath(import.meta.url) && root !== undefined) {
  const never = <T>() => new Promise<T>(() => undefined)
  const checkAgain = () => {
    process.send?.('asked')
    return never<ReadonlyMap<string, string>>()
  }
  const hooks: Record<string, GitServerHooks> = {
    'never records': { record: never<void> },
    'never decides': { checkAgain },
  }
  const server = await startGitServer(root, hooks[mode ?? ''])
  process.on('message', () => process.send?.(process.resourceUsage().maxRSS * 1024))
  process.on('disconnect', () => process.exit())
  process.send?.(server.url)
}
