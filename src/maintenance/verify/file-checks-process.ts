/** The child process that checks the files of the embedded stores. See `file-checks.ts`. */
import { checkSqliteLog, type LogProblem } from '../../events/store/sqlite/check.ts'
import { checkSqliteViews } from '../../projections/store/sqlite/check.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'
import type { Answer } from './file-checks.ts'

const CHECKS: Record<Answer['check'], (file: string) => LogProblem | undefined> = {
  log: checkSqliteLog,
  views(file) {
    const problem = checkSqliteViews(file)
    return problem === undefined ? undefined : { problem }
  },
}

function problemIn(check: Answer['check'], file: string): LogProblem | undefined {
  try {
    return CHECKS[check](file)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { problem: error instanceof BrokenFile ? reason : `${file} can't be checked: ${reason}` }
  }
}

// Ignore the signals: a terminal sends them to this process too, but the parent decides when to end it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
// Exit only when the parent disconnects, so that no answer is lost.
process.on('disconnect', () => process.exit())

const [log = '', views = ''] = process.argv.slice(2)
if (log !== '') await answer('log', log)
if (views !== '') await answer('views', views)

function answer(check: Answer['check'], file: string): Promise<unknown> {
  const found = problemIn(check, file)
  const message: Answer = found === undefined ? { check } : { check, found }
  return new Promise((sent) => process.send?.(message, sent))
}
