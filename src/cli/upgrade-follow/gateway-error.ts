/** Apart from the gateway, so that who only tells of errors need not load it. */

/** The gateway did not answer as one should; the message is one line. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  /** How long it asks to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, retryAfterMs?: number, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterMs = retryAfterMs
  }
}
