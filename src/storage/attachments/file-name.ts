/** Cleans the names of uploaded files. They are shown and offered for saving, but never used as a path. */

const MAX_NAME = 255
/** Maximum length of a file extension. A longer one does not tell the type of a file. */
const MAX_ENDING = 20

/** Marks that make text run from right to left. With one, "gpj.exe" is shown as "exe.jpg". */
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
/** Control characters, line separators, and halves of surrogate pairs. */
const UNSHOWABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\ufeff\ufff9-\ufffb]/gu

/**
 * Returns the name without directories, invisible characters and direction marks, shortened to 255 characters with its
 * extension kept; undefined when nothing is left.
 */
export function cleanFileName(given: string): string | undefined {
  const last = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
  const name = last.replace(DIRECTION_MARKS, '').replace(UNSHOWABLE, '').trim()
  if (/^\.*$/.test(name)) return undefined
  return shorten(name)
}

/** Returns the extension of a name in lower case, with its dot; empty without one. */
export function endingOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot === -1 ? '' : name.slice(dot).toLowerCase()
}

function shorten(name: string): string {
  if (name.length <= MAX_NAME) return name
  const ending = Array.from(endingOf(name).length <= MAX_ENDING ? name.slice(name.lastIndexOf('.')) : '')
  const kept = MAX_NAME - ending.length
  // A character may take two UTF-16 units. Cut first, so that a huge name is not split into characters.
  const stem = Array.from(name.slice(0, 2 * MAX_NAME)).slice(0, kept)
  return [...stem, ...ending].slice(0, MAX_NAME).join('')
}
