/** Repeatable parameters of a query: `?status-types=read&status-types=pinned`, or `status-types[]=read`. */
import { Type } from 'typebox'

export const RepeatedText = (description: string) =>
  Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 50 })], { description }))

/** Returns all values of a repeatable parameter, without empty ones. */
export function textsOf(value: string | readonly string[] | undefined): string[] {
  return (typeof value === 'string' ? [value] : [...(value ?? [])]).filter((text) => text !== '')
}

/** Returns the names in a repeated parameter whose values are comma-separated lists. */
export function namesIn(value: string | readonly string[] | undefined): string[] {
  const names = textsOf(value).flatMap((list) => list.split(','))
  return names.map((name) => name.trim()).filter((name) => name !== '')
}

const BRACKETS = /([?&][^?&=[%]+)(?:\[|%5B)\d*(?:\]|%5D)(?==)/gi

/** Rewrites lists in a URL as axios sends them: `labels=a&labels=b` for `labels[]=a&labels[]=b` or `labels[0]=…`. */
export function urlWithPlainNames(url: string): string {
  return url.includes('?') ? url.replace(BRACKETS, '$1') : url
}
