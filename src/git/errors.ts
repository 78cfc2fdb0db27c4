/** What can go wrong between us and git, as far as a caller can tell it apart. */
import { ErrorWithRefusal, refuse, storeUnavailable } from '../refusal.ts'

/** An argument that must never reach git: a malformed name, id or file name. */
export class InvalidGitArgument extends ErrorWithRefusal {
  override readonly name = 'InvalidGitArgument'
  /** Which argument: `branch`, `ref`, `object id`, … */
  readonly field: string
  readonly reason: string

  constructor(field: string, reason: string) {
    super(`${field}: ${reason}`)
    this.field = field
    this.reason = reason
  }

  get refusal() {
    return refuse.unprocessable(this.message)
  }
}

/** git ran and did not do what was asked; the message is for the log, not for the client. */
export class GitFailed extends Error {
  override readonly name = 'GitFailed'
  /** The exit code; null when a signal ended it. */
  readonly code: number | null
  readonly stderr: string

  constructor(args: readonly string[], code: number | null, stderr: string) {
    super(`git ${args.slice(0, 4).join(' ')} ended with ${code ?? 'a signal'}: ${stderr.trim().slice(-500)}`)
    this.code = code
    this.stderr = stderr
  }
}

/** The directory holds no repository: it was never made, or is deleted. */
export class RepositoryMissing extends ErrorWithRefusal {
  override readonly name = 'RepositoryMissing'
  readonly refusal = refuse.notFound('repository not found')
}

/** git can't work now: disk full, no process to be had, time limit passed. */
export class GitUnavailable extends ErrorWithRefusal {
  override readonly name = 'GitUnavailable'
  readonly refusal = storeUnavailable
}

/** A commit can't be signed: the signing key is missing, unreadable, or no private SSH key without a passphrase. */
export class SigningFailed extends ErrorWithRefusal {
  override readonly name = 'SigningFailed'
  readonly refusal = refuse.unavailable("the server's signing key cannot be used now; try again")
}

/** git said more than the caller is ready to hold. */
export class GitOutputTooLarge extends ErrorWithRefusal {
  override readonly name = 'GitOutputTooLarge'
  readonly refusal = refuse.unprocessable('this is more than the server can process at once')
}

/** A git client's request breaks the protocol. */
export class MalformedGitRequest extends ErrorWithRefusal {
  override readonly name = 'MalformedGitRequest'
  get refusal() {
    return refuse.invalid(this.message)
  }
}

/** A git client's request is larger than allowed. */
export class GitRequestTooLarge extends ErrorWithRefusal {
  override readonly name = 'GitRequestTooLarge'
  get refusal() {
    return refuse.tooLarge(this.message)
  }
}

/** A Content-Encoding that is neither gzip nor identity. */
export class UnknownContentEncoding extends ErrorWithRefusal {
  override readonly name = 'UnknownContentEncoding'
  get refusal() {
    return refuse.unsupported(this.message)
  }
}

/** The client went away, or stood still for too long, before its request was complete. */
export class GitClientGone extends Error {
  override readonly name = 'GitClientGone'
}

/**
 * git moved the refs of a push, and they could not be recorded. The push's marker stays in the journal
 * until a recovery records them.
 */
export class PushUnrecorded extends ErrorWithRefusal {
  override readonly name = 'PushUnrecorded'
  readonly refusal = storeUnavailable
}
