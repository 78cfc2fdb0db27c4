/** Why something was not done, for the client. A decider returns a refusal; `src/http/errors.ts` gives each kind its status. */

export type RefusalKind =
  | 'invalid'
  | 'unauthenticated'
  | 'forbidden'
  | 'notFound'
  | 'notAllowed'
  | 'conflict'
  | 'preconditionFailed'
  | 'tooLarge'
  | 'unsupported'
  | 'unprocessable'
  | 'tooManyRequests'
  | 'unavailable'

export interface Refusal {
  readonly refused: RefusalKind
  readonly message: string
  /** Details for the client: conflicting files, the field at fault. */
  readonly errors?: readonly string[]
  /** Lets other code recognise the refusal: messages are for people, and may change. */
  readonly id?: string
}

function refusal(refused: RefusalKind) {
  return (message: string, errors?: readonly string[]): Refusal =>
    errors === undefined ? { refused, message } : { refused, message, errors }
}

/** `refuse.notFound('branch not found')`: the refusals by name. */
export const refuse = {
  invalid: refusal('invalid'),
  unauthenticated: refusal('unauthenticated'),
  forbidden: refusal('forbidden'),
  notFound: refusal('notFound'),
  notAllowed: refusal('notAllowed'),
  conflict: refusal('conflict'),
  preconditionFailed: refusal('preconditionFailed'),
  tooLarge: refusal('tooLarge'),
  unsupported: refusal('unsupported'),
  unprocessable: refusal('unprocessable'),
  tooManyRequests: refusal('tooManyRequests'),
  unavailable: refusal('unavailable'),
} as const satisfies Record<RefusalKind, ReturnType<typeof refusal>>

export function isRefusal(decision: object): decision is Refusal {
  return 'refused' in decision
}

/** An error that says what the client is told. Any room has its own; its message is for the log. */
export abstract class AnsweredError extends Error {
  abstract readonly refusal: Refusal
}

/** A refusal on its way to the client: an answer, not a failure of the server. */
export class Refused extends AnsweredError {
  override readonly name = 'Refused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** What clients are told when a store, git or the disk does not answer now. */
export const storeAway = refuse.unavailable('a store that this needs does not answer; try again')
