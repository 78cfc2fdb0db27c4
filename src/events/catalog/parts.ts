/** Shared parts of event declarations. */
import { type Static, type TProperties, type TSchema, Type } from 'typebox'

/** A safe integer. */
export const Whole = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })
export const Text = Type.String()
export const Flag = Type.Boolean()

export const OrNull = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()])

/** The changed fields of an edit. */
export const Changes = <Fields extends TProperties>(fields: Fields) => Type.Partial(Type.Object(fields))

/** Reference to an account. The id identifies it; the login is for readers of the log. */
export const AccountRef = Type.Object({ id: Whole, login: Text })
export type AccountRef = Static<typeof AccountRef>

/** Reference to an issue or pull request. */
export const IssueRef = Type.Object({ repoId: Whole, index: Whole })
export type IssueRef = Static<typeof IssueRef>

/** The fields of an issue or pull request in the data of its events. */
export const ofIssue = IssueRef.properties

/** The events of a declaration from types to schemas. */
export type EventsOf<Declared extends Record<string, TSchema>> = {
  [T in keyof Declared]: { type: T; data: Static<Declared[T]> }
}[keyof Declared]
