/** What can go wrong between us and git, as far as a caller can tell it apart. */

/** An argument that must never reach git: a malformed name, id or file name. HTTP answers 422. */
export class InvalidGitArgument extends Error {
  override readonly name = 'InvalidGitArgument'
  /** Which argument: `branch`, `ref`, `object id`, … */
  readonly field: string
  readonly reason: string

  constructor(field: string, reason: string) {
    super(`${field}: ${reason}`)
    this.field = field
    this.reason = reason
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
export class RepositoryMissing extends Error {
  override readonly name = 'RepositoryMissing'
}

/** git can't work now: disk full, no process to be had, time limit passed. HTTP answers 503. */
export class GitUnavailable extends Error {
  override readonly name = 'GitUnavailable'
}

/** A commit can't be signed: the signing key is missing, unreadable, or no private SSH key without a passphrase. */
export class SigningFailed extends Error {
  override readonly name = 'SigningFailed'
}

/** git said more than the caller is ready to hold. */
export class GitOutputTooLarge extends Error {
  override readonly name = 'GitOutputTooLarge'
}

/** A git client's request breaks the protocol. HTTP answers 400. */
export class MalformedGitRequest extends Error {
  override readonly name = 'MalformedGitRequest'
}

/** A git client's request is larger than allowed. HTTP answers 413. */
export class GitRequestTooLarge extends Error {
  override readonly name = 'GitRequestTooLarge'
}

/** A Content-Encoding that is neither gzip nor identity. HTTP answers 415. */
export class UnknownContentEncoding extends Error {
  override readonly name = 'UnknownContentEncoding'
}

/** The client went away, or stood still for too long, before its request was complete. */
export class GitClientGone extends Error {
  override readonly name = 'GitClientGone'
}

/**
 * git moved the refs of a push, and they could not be recorded. The push's marker stays in the journal
 * until a recovery records them. HTTP answers 503.
 */
export class PushUnrecorded extends Error {
  override readonly name = 'PushUnrecorded'
}
