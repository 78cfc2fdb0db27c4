/** Reads yes or no in a query, as Gitea does. */
import { Type } from 'typebox'

const TRUE = new Set(['1', 't', 'T', 'true', 'True', 'TRUE'])

/** The type is a string, not a boolean, because an unknown value means no and must not be an error. */
export const FlagQuery = (description: string) => Type.Optional(Type.String({ description }))

export function flagOf(text: string | undefined, whenAbsent: boolean): boolean {
  return text === undefined || text === '' ? whenAbsent : TRUE.has(text)
}
