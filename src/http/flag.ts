/** Yes or no in a query, as Gitea reads it. */
import { Type } from 'typebox'

const TRUE = new Set(['1', 't', 'T', 'true', 'True', 'TRUE'])

/** A string on purpose: what is neither yes nor no is a no, never an error. */
export const FlagQuery = (description: string) => Type.Optional(Type.String({ description }))

export function flagOf(text: string | undefined, whenAbsent: boolean): boolean {
  return text === undefined || text === '' ? whenAbsent : TRUE.has(text)
}
