/** How a body is coded, in one form for each coding: the names have no case, gzip has two, and none at all is `identity`. */
export function codingOf(contentEncoding: string | undefined): string {
  const coding = contentEncoding?.trim().toLowerCase() ?? ''
  if (coding === '') return 'identity'
  return coding === 'x-gzip' ? 'gzip' : coding
}
