/** Names of uploaded files: shown to people and offered for saving, never used as a path here. */

const MAX_NAME = 255
/** An ending that is longer says nothing of the kind of file. */
const MAX_ENDING = 20

/** Marks that let a name read from right to left: "gpj.exe" would be shown as "exe.jpg". */
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
/** Control characters, line ends, halves of characters. */
const UNSHOWABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\ufeff\ufff9-\ufffb]/gu

/**
 * The name without directories, and without what can't be seen or turns the rest around; at most 255
 * characters, of which the ending is kept. Undefined when nothing is left.
 */
export function cleanFileName(given: string): string | undefined {
  const last = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
  const name = last.replace(DIRECTION_MARKS, '').replace(UNSHOWABLE, '').trim()
  if (/^\.*$/.test(name)) return undefined
  return shorten(name)
}

/** In lower case, with its dot; empty when there is none. */
export function endingOf(name: string): string {
  const dot = name.lastIndexOf('.')
  return dot === -1 ? '' : name.slice(dot).toLowerCase()
}

function shorten(name: string): string {
  if (name.length <= MAX_NAME) return name
  const ending = Array.from(endingOf(name).length <= MAX_ENDING ? name.slice(name.lastIndexOf('.')) : '')
  const kept = MAX_NAME - ending.length
  // A character may take two places: what is cut into single ones is bounded first.
  const stem = Array.from(name.slice(0, 2 * MAX_NAME)).slice(0, kept)
  return [...stem, ...ending].slice(0, MAX_NAME).join('')
}
