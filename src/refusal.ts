/** Why a command was not carried out. A decider returns one; `src/http/errors.ts` gives each its status. */

export type RefusalKind =
  | 'invalid'
  | 'unauthenticated'
  | 'forbidden'
  | 'notFound'
  | 'notAllowed'
  | 'conflict'
  | 'preconditionFailed'
  | 'unprocessable'
  | 'tooManyRequests'
  | 'unavailable'

export interface Refusal {
  readonly refused: RefusalKind
  readonly message: string
  /** Details for the client: conflicting files, the field at fault. */
  readonly errors?: readonly string[]
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
  unprocessable: refusal('unprocessable'),
  tooManyRequests: refusal('tooManyRequests'),
  unavailable: refusal('unavailable'),
} as const satisfies Record<RefusalKind, ReturnType<typeof refusal>>

export function isRefusal(decision: object): decision is Refusal {
  return 'refused' in decision
}

/** A refusal on its way to the client. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}
