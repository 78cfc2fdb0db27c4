/**
 * Refusals: why the server did not do what a client asked. Deciders return them; `src/http/answers/errors.ts` maps each
 * kind to an HTTP status.
 */

import type { ErrorCode } from './error-codes.ts'

interface RefusalOf<Kind> {
  readonly refused: Kind
  readonly message: string
  /** Details for the client, such as the files in conflict or the wrong field. */
  readonly errors?: readonly string[]
  /** For clients and code that recognize the refusal. Messages are for people, and may change. */
  readonly code?: ErrorCode
  /** The limit that was reached. */
  readonly id?: string
  /** The refusal lasts until an operator repairs something: a retry is useless. */
  readonly lasts?: true
  /** The old and new name of a renamed resource. */
  readonly moved?: { from: readonly string[]; to: readonly string[] }
}

function refusal<const Kind>(refused: Kind) {
  return (message: string, errors?: readonly string[]): RefusalOf<Kind> =>
    errors === undefined ? { refused, message } : { refused, message, errors }
}

/** Makes refusals by kind: `refuse.notFound('branch not found')`. */
export const refuse = {
  /** The resource was renamed. */
  moved: (moved: NonNullable<RefusalOf<'moved'>['moved']>): RefusalOf<'moved'> => ({
    refused: 'moved',
    message: `the name is ${moved.to.join('/')} now`,
    moved,
  }),
  invalid: refusal('invalid'),
  unauthenticated: refusal('unauthenticated'),
  forbidden: refusal('forbidden'),
  notFound: refusal('notFound'),
  notAllowed: refusal('notAllowed'),
  timedOut: refusal('timedOut'),
  conflict: refusal('conflict'),
  gone: refusal('gone'),
  preconditionFailed: refusal('preconditionFailed'),
  tooLarge: refusal('tooLarge'),
  unsupported: refusal('unsupported'),
  unprocessable: refusal('unprocessable'),
  locked: refusal('locked'),
  tooManyRequests: refusal('tooManyRequests'),
  unavailable: refusal('unavailable'),
  insufficientStorage: refusal('insufficientStorage'),
}

/** Adds a code to a refusal. */
export const coded = (code: ErrorCode, refusal: Refusal): Refusal => ({ ...refusal, code })

export type RefusalKind = keyof typeof refuse
export type Refusal = RefusalOf<RefusalKind>

export function isRefusal(decision: object): decision is Refusal {
  return 'refused' in decision
}

/** The refusal of a command that conflicted with other writers too often. A retry may succeed. */
export const contended = refuse.conflict('other requests change the resource at the same time; try again')

/** An error with a refusal for the client. Its own message is for the log. */
export abstract class ErrorWithRefusal extends Error {
  override readonly name: string = this.constructor.name
  abstract readonly refusal: Refusal
}

/** Carries a refusal to the HTTP layer: a normal answer, not a server error. */
export class Refused extends ErrorWithRefusal {
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** The refusal when a damaged part of the log is needed. `what` names it. */
export const logDamaged = (what: string): Refusal => ({
  ...refuse.unavailable(`${what}. An operator must repair the log: "mergelog verify" says how`),
  lasts: true,
})

/** The refusal when a stopped read model is needed. `what` names the model or its purpose. */
export const modelStopped = (what: string): Refusal => ({
  ...refuse.unavailable(`${what}; see /healthz`),
  lasts: true,
})

/** The refusal when a store, git or the disk does not answer. */
export const storeUnavailable = refuse.unavailable('a required store does not answer; try again')
