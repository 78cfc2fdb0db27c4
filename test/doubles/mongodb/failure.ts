/** An error answer `{ok: 0}` with MongoDB's code and name. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly code: number
  readonly codeName: string

  constructor(code: number, codeName: string, message: string) {
    super(message)
    this.code = code
    this.codeName = codeName
  }
}

/** The error for a feature that MongoDB has and this server does not. */
export function unsupported(what: string): CommandFailure {
  return new CommandFailure(2, 'BadValue', `${what} is not supported by the double`)
}

/** The error for a value that MongoDB also refuses. */
export function badValue(message: string): CommandFailure {
  return new CommandFailure(2, 'BadValue', message)
}
