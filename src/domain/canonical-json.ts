/** Canonical JSON of RFC 8785: equal values have equal texts. */

/**
 * Returns the canonical text of a JSON value. Members that are undefined are left out.
 * @throws TypeError for a lone surrogate or a number that JSON does not have
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`
  if (typeof value === 'object' && value !== null) {
    // `sort` compares UTF-16 code units, as the RFC requires.
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${members.map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member)}`).join()}}`
  }
  const isJson = value === null || typeof value === 'boolean' || Number.isFinite(value)
  if (isJson || (typeof value === 'string' && value.isWellFormed())) return JSON.stringify(value)
  throw new TypeError(`${typeof value} has no canonical JSON`)
}
