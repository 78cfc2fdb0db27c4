/** Ids and indexes as they stand in paths. */

/** The number in a path, or undefined when it is no positive int64 that can exist. */
export function pathNumber(text: string): number | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}
