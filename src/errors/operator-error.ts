/** A problem that the operator can fix: a setting, a file, an unreachable server. The message is one line. */
export class OperatorError extends Error {
  override readonly name: string = this.constructor.name
}
