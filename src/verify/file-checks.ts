/**
 * What only the files of the embedded stores can tell, found out in a process of its own: SQLite reads each of
 * them from end to end in one call.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LogProblem } from '../events/sqlite-check.ts'

export interface FileChecks {
  log?: () => Promise<LogProblem | undefined>
  views?: () => Promise<string | undefined>
}

type Check = keyof FileChecks

/** What the process says: one of these for each check. Who only says it to itself needs no schema. */
export interface Answer {
  check: Check
  found?: LogProblem
}

const isAnswer = (message: unknown): message is Answer =>
  typeof message === 'object' && message !== null && 'check' in message

/**
 * The checks of the embedded stores that are kept in these files, one after the other, from the first call on: who
 * wants both calls both in one turn. The signal ends them, and must be aborted when nobody waits for them any more.
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

// Beside this file, in the language that this one is run in.
const SCRIPT = fileURLToPath(new URL(`file-checks-process${extname(import.meta.url)}`, import.meta.url))

function startProcess({ log = '', views = '' }: { log?: string; views?: string }, signal: AbortSignal) {
  // What ends it is said by its end.
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
        return { problem: `${file} can't be checked: that ended with ${code ?? name}` }
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
