/** Checks the files of the embedded stores in a child process, because SQLite reads a whole file in one call. */
import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { LogProblem } from '../../events/store/sqlite/check.ts'
import { program } from '../../storage/project-files.ts'

export interface FileChecks {
  log?: () => Promise<LogProblem | undefined>
  views?: () => Promise<string | undefined>
}

type Check = keyof FileChecks

/** A message of the child process, one per check. It needs no schema: both sides are our own code. */
export interface Answer {
  check: Check
  found?: LogProblem
}

const isAnswer = (message: unknown): message is Answer =>
  typeof message === 'object' && message !== null && 'check' in message

/**
 * Returns the checks of these files. The first call starts the child process for both, so call both synchronously, one
 * after the other. Abort the signal to end the process early.
 */
export function fileChecks(files: { log?: string; views?: string }, signal: AbortSignal): FileChecks {
  const { log, views } = files
  let running: ChildProcess | undefined
  const answer = (check: Check, file: string) => {
    running ??= startProcess(files, signal)
    return answerOf(running, check, file, signal)
  }
  return {
    ...(log !== undefined && { log: () => answer('log', log) }),
    ...(views !== undefined && { views: async () => (await answer('views', views))?.problem }),
  }
}

const SCRIPT = fileURLToPath(program('maintenance/verify/file-checks-process'))

function startProcess({ log = '', views = '' }: { log?: string; views?: string }, signal: AbortSignal) {
  // Its exit code or signal is reported instead of its output.
  const child = fork(SCRIPT, [log, views], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  signal.addEventListener('abort', () => child.kill('SIGKILL'), { once: true })
  return child
}

async function answerOf(
  child: ChildProcess,
  check: Check,
  file: string,
  signal: AbortSignal,
): Promise<LogProblem | undefined> {
  const answered = new AbortController()
  try {
    return await Promise.race([
      messageOf(child, check, answered.signal),
      once(child, 'exit', { signal: answered.signal }).then(([code, name]) => {
        signal.throwIfAborted()
        return { problem: `${file} can't be checked: the process ended with ${code ?? name}` }
      }),
    ])
  } finally {
    answered.abort()
  }
}

async function messageOf(child: ChildProcess, check: Check, signal: AbortSignal) {
  for await (const [message] of on(child, 'message', { signal })) {
    if (isAnswer(message) && message.check === check) return message.found
  }
  return undefined
}
