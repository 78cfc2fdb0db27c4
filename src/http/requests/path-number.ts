/** Reads ids and indexes in paths and queries. */

/** Parses a number in a path; undefined unless it is a positive integer up to `Number.MAX_SAFE_INTEGER`. */
export function pathNumber(text: string): number | undefined {
  if (!/^[1-9]\d{0,15}$/.test(text)) return undefined
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}

/** Returns the filter for one id. 0 and an empty text mean any; an invalid id matches none. */
export function onlyId(text: string | undefined): { id?: number } {
  return text === undefined || text === '' || text === '0' ? {} : { id: pathNumber(text) ?? 0 }
}
