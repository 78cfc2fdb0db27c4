/** Whether `If-None-Match` contains `tag`. Weak and strong tags compare equal, as for GET. */
export function matchesTag(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false
  const weak = (text: string) => text.trim().replace(/^W\//, '')
  return header.trim() === '*' || header.split(',').some((known) => weak(known) === weak(tag))
}
