/** Overhead of a value, in characters. */
const BESIDES = 20

/** Estimates the size of a document in characters, nested values included. Caches use it for their limits. */
export function roughSize(value: unknown): number {
  if (typeof value === 'string') return BESIDES + value.length
  if (typeof value !== 'object' || value === null) return BESIDES
  return Object.values(value).reduce<number>((sum, part) => sum + roughSize(part), 5 * BESIDES)
}
