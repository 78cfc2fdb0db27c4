/** About how many characters a document has, for the limits of caches: exact only for its texts. */
export function roughSize(document: object): number {
  return Object.values(document).reduce<number>((sum, value) => {
    if (typeof value === 'string') return sum + value.length
    return sum + 50 * (Array.isArray(value) ? 1 + value.length : 1)
  }, 200)
}
