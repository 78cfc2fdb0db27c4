/** A separate file, so that code which only reports errors doesn't load the gateway. */

/** The gateway gave no valid answer. The message is one line. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  /** How long the gateway asks us to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, retryAfterMs?: number, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterMs = retryAfterMs
  }
}
