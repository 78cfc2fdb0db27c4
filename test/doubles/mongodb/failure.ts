/** An answer `{ok: 0}` with MongoDB's own code and name. */
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

/** For what MongoDB does and this server does not. */
export function unsupported(what: string): CommandFailure {
  return new CommandFailure(2, 'BadValue', `${what} is not supported by the double`)
}

/** For what MongoDB does not take either. */
export function badValue(message: string): CommandFailure {
  return new CommandFailure(2, 'BadValue', message)
}
