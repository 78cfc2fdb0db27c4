/**
 * What only the files of the embedded stores can tell, found out in a process of its own: SQLite reads each of
 * them from end to end in one call.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Type } from 'typebox'
import { checked, checkOf } from '../checked-json.ts'
import { checkSqliteLog, type LogProblem } from '../events/sqlite-check.ts'
import { checkSqliteViews } from '../projections/sqlite-snapshot.ts'
import { BrokenFile } from '../sqlite.ts'

export interface FileChecks {
  log?: () => Promise<LogProblem | undefined>
  views?: () => Promise<string | undefined>
}

/** Messages have no undefined. */
const isFound = checkOf(
  Type.Union([
    Type.Null(),
    Type.Object({
      problem: Type.String(),
      position: Type.Optional(Type.Integer()),
      stream: Type.Optional(Type.String()),
      revision: Type.Optional(Type.Integer()),
    }),
  ]),
)

/** The checks of the embedded stores that are kept in these files; the signal ends those that nobody waits for. */
export function fileChecks(files: { log?: string; views?: string }, signal: AbortSignal): FileChecks {
  const { log, views } = files
  return {
    ...(log !== undefined && { log: () => inProcess('log', log, signal) }),
    ...(views !== undefined && { views: async () => (await inProcess('views', views, signal))?.problem }),
  }
}

const SCRIPT = fileURLToPath(import.meta.url)

async function inProcess(
  check: 'log' | 'views',
  file: string,
  signal: AbortSignal,
): Promise<LogProblem | undefined> {
  // What ends it is said by its end.
  const child = fork(SCRIPT, [check, file], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const kill = () => child.kill('SIGKILL')
  signal.addEventListener('abort', kill, { once: true })
  const ended = new AbortController()
  try {
    const [message]: unknown[] = await Promise.race([
      once(child, 'message', { signal: ended.signal }),
      once(child, 'exit', { signal: ended.signal }).then(([code, name]) => {
        signal.throwIfAborted()
        return [{ problem: `${file} can't be checked: that ended with ${code ?? name}` }]
      }),
    ])
    return checked(isFound, message) ?? undefined
  } finally {
    ended.abort()
    signal.removeEventListener('abort', kill)
    kill()
  }
}

/** In the process. */
function problemIn(check: string, file: string): LogProblem | null {
  try {
    if (check === 'log') return checkSqliteLog(file) ?? null
    const problem = checkSqliteViews(file)
    return problem === undefined ? null : { problem }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { problem: error instanceof BrokenFile ? reason : `${file} can't be checked: ${reason}` }
  }
}

if (process.argv[1] === SCRIPT) {
  // A terminal sends its signals to all: the process that waits for this one decides.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
  process.send?.(problemIn(process.argv[2] ?? '', process.argv[3] ?? ''))
}
