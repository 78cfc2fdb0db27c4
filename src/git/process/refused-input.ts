/** Why git has ended without an answer to what a client sent: because of that, or because of this server. Pure. */
import { type Ending, failureOf } from './child-process.ts'
import { GitFailed, MalformedGitRequest } from './errors.ts'

/** Here git repeats words of the client, which may be any. They tell nothing of the server. */
const REPEATS =
  /^fatal: (git upload-pack: |error: )?(protocol error|remote error|unknown|unsupported|unexpected|expected|invalid|ambiguous|mismatched|command '|filter '|'(?!.*' does not appear to be a git repository$))/
/** What git says of a damaged repository, or of a machine that does not let it work. */
const OURS = [
  /^BUG: /,
  /^(fatal|error): (git upload-pack: )?(unable to|cannot|can't|could not|failed to|bad (config|object|tree|signature|ref)|missing (object|blob|tree|commit)|inflate|garbage|packfile|pack has|index file|loose object|object file|aborting due to|revision walk|hash mismatch)/,
  /: (Permission denied|Operation not permitted|Input\/output error|Bad message|Structure needs cleaning|Stale file handle|Not a directory|Is a directory|No such file or directory)$/,
  /\bcorrupt/,
]
/** Signals of a program that an input has led into a fault of its own. All others come from outside. */
const CRASHES = ['SIGSEGV', 'SIGABRT', 'SIGFPE', 'SIGILL']

/**
 * The error when git gives no answer to a client's request: MalformedGitRequest, unless git says that something is wrong
 * here. Each version of git has other words to refuse an input, so those are not listed.
 */
export async function failureByInput(args: readonly string[], ending: Ending, dir?: string): Promise<Error> {
  const own = ownLines(ending.stderr)
  const failure = await failureOf(args, { ...ending, stderr: own.join('\n') }, dir)
  const isRefused =
    ending.code === null
      ? CRASHES.includes(ending.signal ?? '')
      : failure instanceof GitFailed && !own.some((line) => OURS.some((pattern) => pattern.test(line)))
  if (!isRefused) return failure
  const cause = await failureOf(args, ending, dir)
  return new MalformedGitRequest('this is not a git request', { cause })
}

/** The lines before git repeats anything of the client. */
function ownLines(stderr: string): string[] {
  const lines = stderr.split('\n')
  const end = lines.findIndex((line) => REPEATS.test(line))
  return end < 0 ? lines : lines.slice(0, end)
}
