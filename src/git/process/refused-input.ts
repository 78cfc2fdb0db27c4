/** Tells whether git failed because of the client's input or because of this server. Pure. */
import { type Ending, failureOf } from './child-process.ts'
import { GitFailed, MalformedGitRequest } from './errors.ts'

/** Messages in which git repeats arbitrary words of the client. They say nothing about the server. */
const REPEATS =
  /^fatal: (git upload-pack: |error: )?(protocol error|remote error|unknown|unsupported|unexpected|expected|invalid|ambiguous|mismatched|command '|filter '|'(?!.*' does not appear to be a git repository$))/
/** Messages about a damaged repository or a failing host. */
const SERVER_PROBLEMS = [
  /^BUG: /,
  /^(fatal|error): (git upload-pack: )?(unable to|cannot|can't|could not|failed to|bad (config|object|tree|signature|ref)|missing (object|blob|tree|commit)|inflate|garbage|packfile|pack has|index file|loose object|object file|aborting due to|revision walk|hash mismatch)/,
  /: (Permission denied|Operation not permitted|Input\/output error|Bad message|Structure needs cleaning|Stale file handle|Not a directory|Is a directory|No such file or directory)$/,
  /\bcorrupt/,
]
/** Signals of crashes that the input causes. All others come from outside. */
const CRASHES = ['SIGSEGV', 'SIGABRT', 'SIGFPE', 'SIGILL']

/**
 * Returns the error when git fails without an answer to a client's request: MalformedGitRequest, unless git reports a
 * problem of this server. Messages about refused input differ between versions of git, so they are not listed.
 */
export async function failureByInput(args: readonly string[], ending: Ending, dir?: string): Promise<Error> {
  const own = serverLines(ending.stderr)
  const failure = await failureOf(args, { ...ending, stderr: own.join('\n') }, dir)
  const isRefused =
    ending.code === null
      ? CRASHES.includes(ending.signal ?? '')
      : failure instanceof GitFailed &&
        !own.some((line) => SERVER_PROBLEMS.some((pattern) => pattern.test(line)))
  if (!isRefused) return failure
  const cause = await failureOf(args, ending, dir)
  return new MalformedGitRequest('this is not a git request', { cause })
}

/** Returns the lines before the first one that repeats words of the client. */
function serverLines(stderr: string): string[] {
  const lines = stderr.split('\n')
  const end = lines.findIndex((line) => REPEATS.test(line))
  return end < 0 ? lines : lines.slice(0, end)
}
