/**
 * Whole numbers of 64 bits, as decimal strings. JSON numbers are exact only up to 2^53, so events, documents and
 * answers use strings, like protobuf's JSON mapping.
 */

const DECIMAL = /^(-?)0*(\d{1,20})$/
const INT64_MAX = 2n ** 63n - 1n
const UINT64_MAX = 2n ** 64n - 1n

/** Returns an int64 as its shortest decimal string; undefined for other text. */
export function parseInt64(text: string): string | undefined {
  return parseBetween(text, -INT64_MAX - 1n, INT64_MAX)
}

/** Returns a uint64 as its shortest decimal string; undefined for other text. */
export function parseUint64(text: string): string | undefined {
  return parseBetween(text, 0n, UINT64_MAX)
}

function parseBetween(text: string, least: bigint, most: bigint): string | undefined {
  const [, sign, digits] = DECIMAL.exec(text) ?? []
  if (digits === undefined) return undefined
  const value = BigInt(`${sign}${digits}`)
  return value >= least && value <= most ? `${value}` : undefined
}

/** Whether an int64 is above zero. */
export const isPositive = (int64: string) => BigInt(int64) > 0n

/** Whether the first int64 is below the second. */
export const isBelow = (int64: string, other: string) => BigInt(int64) < BigInt(other)
