/** Normalizes a content coding: lower case, `gzip` for its alias, `identity` when absent. */
export function codingOf(contentEncoding: string | undefined): string {
  const coding = contentEncoding?.trim().toLowerCase() ?? ''
  if (coding === '') return 'identity'
  return coding === 'x-gzip' ? 'gzip' : coding
}
