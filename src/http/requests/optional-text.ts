/** Parameters of a query that may be left out. */
import { Type } from 'typebox'

/**
 * The schema of such a parameter. It is a string also for numbers and flags, because a value that is not one means the
 * default and must not be an error.
 */
export const OptionalText = (description: string) => Type.Optional(Type.String({ description }))

const TRUE = new Set(['1', 't', 'T', 'true', 'True', 'TRUE'])

/** Yes or no, as Gitea reads it: an unknown text means no. */
export function flagOf(text: string | undefined, whenAbsent: boolean): boolean {
  return text === undefined || text === '' ? whenAbsent : TRUE.has(text)
}
