/** Compares the entity tag of an answer with what the client has. */

/** Whether `tag` is among those of this `If-None-Match` header. Weak and strong tags are compared alike, as for GET. */
export function matchesTag(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false
  const weak = (text: string) => text.trim().replace(/^W\//, '')
  return header.trim() === '*' || header.split(',').some((known) => weak(known) === weak(tag))
}
