/** Reads ids and indexes in paths. */

/** The number in a path; undefined when it is not a positive integer up to `Number.MAX_SAFE_INTEGER`. */
export function pathNumber(text: string): number | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}
