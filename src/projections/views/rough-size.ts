/** What a value takes besides its text. */
const BESIDES = 20

/** About how many characters a document has, for the limits of caches, also in what is deep in it. */
export function roughSize(value: unknown): number {
  if (typeof value === 'string') return BESIDES + value.length
  if (typeof value !== 'object' || value === null) return BESIDES
  return Object.values(value).reduce<number>((sum, part) => sum + roughSize(part), 5 * BESIDES)
}
