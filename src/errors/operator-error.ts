/** A problem that the operator can fix: a setting, a file, a server that does not answer. The message is one line. */
export class OperatorError extends Error {
  override readonly name: string = this.constructor.name
}
