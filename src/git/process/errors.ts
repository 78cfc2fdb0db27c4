/** The errors of git that callers distinguish. */
import { ErrorWithRefusal, refuse, storeUnavailable } from '../../errors/refusal.ts'

/** An argument is malformed (a name, an id or a file name), so it must not reach git. */
export class InvalidGitArgument extends ErrorWithRefusal {
  /** The argument's name: `branch`, `ref`, `object id`, … */
  readonly field: string
  readonly reason: string
  readonly refusal = refuse.unprocessable(this.message)

  constructor(field: string, reason: string) {
    super(`${field}: ${reason}`)
    this.field = field
    this.reason = reason
  }
}

/** git ran and failed. The message is for the log, not for the client. */
export class GitFailed extends Error {
  override readonly name = 'GitFailed'
  /** The exit code; null when a signal ended git. */
  readonly code: number | null
  readonly stderr: string

  constructor(args: readonly string[], code: number | null, stderr: string) {
    super(`git ${args.slice(0, 4).join(' ')} ended with ${code ?? 'a signal'}: ${stderr.trim().slice(-500)}`)
    this.code = code
    this.stderr = stderr
  }
}

/** The directory does not contain a repository: it was never created, or it has been deleted. */
export class RepositoryMissing extends ErrorWithRefusal {
  readonly refusal = refuse.notFound('repository not found')
}

/** git can't work now: the disk is full, no process can start, or a time limit has passed. */
export class GitUnavailable extends ErrorWithRefusal {
  readonly refusal = storeUnavailable
}

/** A command of the server exceeded its time limit. A retry would take as long. */
export class GitTookTooLong extends GitUnavailable {}

/** A commit can't be signed: the key is missing or unreadable, has a passphrase, or is not a private SSH key. */
export class SigningFailed extends ErrorWithRefusal {
  readonly refusal = refuse.unavailable("the server's signing key cannot be used now; try again")
}

/** git's output is larger than the caller allows. */
export class GitOutputTooLarge extends ErrorWithRefusal {
  readonly refusal = refuse.unprocessable('the result is larger than the limit; narrow the request')
}

/** A git client's request breaks the protocol. */
export class MalformedGitRequest extends ErrorWithRefusal {
  readonly refusal = refuse.invalid(this.message)
}

/** A git client's request is larger than allowed. */
export class GitRequestTooLarge extends ErrorWithRefusal {
  readonly refusal = refuse.tooLarge(this.message)
}

/** A push names more refs than one push may. */
export class TooManyRefs extends GitRequestTooLarge {
  /** The capabilities of the client. */
  readonly capabilities: ReadonlySet<string>

  constructor(message: string, { capabilities }: { capabilities: ReadonlySet<string> }) {
    super(message)
    this.capabilities = capabilities
  }
}

/** The Content-Encoding of a request is neither gzip nor identity. */
export class UnknownContentEncoding extends ErrorWithRefusal {
  readonly refusal = refuse.unsupported(this.message)
}

/** The client went away, or sent or read too slowly, before its request or its answer was complete. */
export class GitClientGone extends ErrorWithRefusal {
  readonly refusal = refuse.timedOut('the request did not arrive in time')
}

/** A client's query exceeded its time limit. A retry would take as long. */
export class GitTooSlow extends ErrorWithRefusal {
  readonly refusal = refuse.unprocessable('git took too long; narrow the request')
}

/**
 * git moved the refs of a push, but the log could not record it. The push's marker stays in the journal until a recovery
 * records it.
 */
export class PushUnrecorded extends ErrorWithRefusal {
  readonly refusal = storeUnavailable
}

/** For `catch`: returns false when git failed, for example because of a missing object. */
export function falseIfGitFailed(error: unknown): false {
  if (error instanceof GitFailed) return false
  throw error
}
