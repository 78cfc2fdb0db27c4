/** Optional parameters of a query. */
import { Type } from 'typebox'

/**
 * The schema of an optional parameter. Numbers and flags are strings too, because an invalid value means the default
 * and must not be an error.
 */
export const OptionalText = (description: string) => Type.Optional(Type.String({ description }))

const TRUE = new Set(['1', 't', 'T', 'true', 'True', 'TRUE'])

/** Parses a flag as Gitea does: an unknown text is false. */
export function flagOf(text: string | undefined, whenAbsent: boolean): boolean {
  return text === undefined || text === '' ? whenAbsent : TRUE.has(text)
}
