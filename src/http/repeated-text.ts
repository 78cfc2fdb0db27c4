/** Parameters of a query that may come several times: `?status-types=read&status-types=pinned`. */
import { Type } from 'typebox'

export const RepeatedText = (description: string) =>
  Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 50 })], { description }))

/** All values of such a parameter, without empty ones. */
export function textsOf(value: string | readonly string[] | undefined): string[] {
  return (typeof value === 'string' ? [value] : [...(value ?? [])]).filter((text) => text !== '')
}
