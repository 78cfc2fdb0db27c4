/** Checks paths of files: of requests, and of new files. */

/** Maximum depth of a new file: each directory is a written object. */
const MAX_PARTS = 64
const MAX_PATH_BYTES = 4096
/** The limit of file systems. */
const MAX_NAME_BYTES = 255

/** Characters that some file systems leave out of names: with them, another name is `.git` for those. */
const IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g

/**
 * Removes slashes from both ends. Without a regular expression: its search would be quadratic, hours for a megabyte of
 * slashes.
 */
export function withoutSlashes(path: string): string {
  let [start, end] = [0, path.length]
  while (start < end && path[start] === '/') start += 1
  while (end > start && path[end - 1] === '/') end -= 1
  return path.slice(start, end)
}

/**
 * Splits a path into names, from the root of a tree; empty for the root. Undefined for an impossible path. Slashes at
 * both ends don't count.
 */
export function partsOf(path: string): string[] | undefined {
  const inner = withoutSlashes(path)
  if (inner === '') return []
  if (Buffer.byteLength(inner) > MAX_PATH_BYTES || inner.includes('\0')) return undefined
  const parts = inner.split('/')
  return parts.some((part) => part === '' || part === '.' || part === '..') ? undefined : parts
}

/**
 * Returns why a new file may not have this path; undefined for a valid one. Combines git's rules for checkouts with those
 * of all operating systems: a clone must not write into its own `.git` anywhere.
 */
export function newPathProblem(path: string): string | undefined {
  if (path === '') return 'is empty'
  if (path.startsWith('/') || path.endsWith('/')) return "begins or ends with '/'"
  if (/\p{Surrogate}/u.test(path)) return 'is not valid Unicode'
  if (/\p{Cc}/u.test(path)) return 'contains a control character'
  if (path.includes('\\')) return "contains '\\'"
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`
  const parts = path.split('/')
  if (parts.length > MAX_PARTS) return `has more than ${MAX_PARTS} parts`
  for (const part of parts) {
    if (part === '') return "contains '//'"
    if (part === '.' || part === '..') return `has a part that is '${part}'`
    if (Buffer.byteLength(part) > MAX_NAME_BYTES)
      return `has a part that is longer than ${MAX_NAME_BYTES} bytes`
    if (isGitDirectory(part)) return "has a part that git takes for '.git'"
  }
  return undefined
}

/** Whether a name means git's directory on any system: case, dots and streams of Windows, characters that HFS+ ignores. */
function isGitDirectory(part: string): boolean {
  const [name = ''] = part.replace(IGNORED, '').toLowerCase().split(':')
  const trimmed = name.replace(/[ .]+$/, '')
  return trimmed === '.git' || trimmed === 'git~1'
}
