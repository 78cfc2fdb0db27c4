/** Titles of issues and pull requests. Pure. */

/**
 * A title is one line, without blanks around it: it becomes the first line of commit messages, which git takes
 * no NUL in. Empty when nothing is left.
 */
export function titleOf(text: string | null | undefined): string {
  return (text ?? '').replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
