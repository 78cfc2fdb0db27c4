/** Titles of issues and pull requests. Pure. */

/**
 * The text as one line, without control characters and surrounding blanks: a title becomes the first line of commit
 * messages, and git refuses NUL in them. Empty when nothing is left.
 */
export function titleOf(text: string | null | undefined): string {
  return (text ?? '').replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
