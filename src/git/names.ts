/** What git accepts as the name of a branch, of a ref and of an object; decided without starting git. */
import { InvalidGitArgument } from './errors.ts'

/** A file system's limit is 255 bytes, and git writes `NAME.lock` beside `NAME`. */
const MAX_COMPONENT_BYTES = 250
const MAX_NAME_BYTES = 1000

export const ZERO_ID = '0'.repeat(40)
/** The tree with nothing in it; git knows it in every repository. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/** True for 40 lower-case hexadecimal digits that are not all zero. */
export function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text) && text !== ZERO_ID
}

/**
 * Why git would refuse `ref` as a full name (`refs/heads/main`), or undefined when it is fine: the rules
 * of `git check-ref-format` and of the commands that make branches and tags; stricter in that no
 * control character of Unicode may appear, and that a file system must be able to hold the name.
 */
export function refNameProblem(ref: string): string | undefined {
  if (!ref.startsWith('refs/')) return 'does not begin with refs/'
  const path = ref.slice('refs/'.length)
  const slash = path.indexOf('/')
  if (slash === -1) return 'names no branch, tag or other kind of ref'
  const name = path.slice(slash + 1)
  if (path.startsWith('heads/')) return branchNameProblem(name)
  if (path.startsWith('tags/') && name.startsWith('-')) return "begins with '-'"
  return pathProblem(path)
}

/** Why `name` can't be a branch, or undefined when it can. */
export function branchNameProblem(name: string): string | undefined {
  if (name === '') return 'is empty'
  if (name === 'HEAD' || name === '@') return 'is a name that git keeps for itself'
  if (name.startsWith('-')) return "begins with '-'"
  return pathProblem(name)
}

/** The ref of a branch. @throws InvalidGitArgument when it can't be one */
export function branchRef(branch: string): string {
  const problem = branchNameProblem(branch)
  if (problem !== undefined) throw new InvalidGitArgument('branch', problem)
  return `refs/heads/${branch}`
}

/** Gives the ref back. @throws InvalidGitArgument when git would refuse it */
export function checkedRef(ref: string): string {
  const problem = refNameProblem(ref)
  if (problem !== undefined) throw new InvalidGitArgument('ref', problem)
  return ref
}

/** Gives the object id back. @throws InvalidGitArgument when it is none */
export function checkedId(id: string): string {
  if (!isObjectId(id)) throw new InvalidGitArgument('object id', 'is not 40 lower-case hexadecimal digits')
  return id
}

function pathProblem(path: string): string | undefined {
  // Lone surrogates can't be written in UTF-8: two names would become one.
  if (/\p{Surrogate}/u.test(path)) return 'is not valid Unicode'
  if (/\p{Cc}/u.test(path)) return 'contains a control character'
  const forbidden = /[ ~^:?*[\\]/.exec(path)
  if (forbidden !== null) return `contains '${forbidden[0]}'`
  if (path.includes('..')) return "contains '..'"
  if (path.includes('@{')) return "contains '@{'"
  if (path.endsWith('.')) return "ends with '.'"
  if (Buffer.byteLength(path) > MAX_NAME_BYTES) return `is longer than ${MAX_NAME_BYTES} bytes`
  for (const component of path.split('/')) {
    if (component === '') return "begins or ends with '/' or contains '//'"
    if (component.startsWith('.')) return "has a part that begins with '.'"
    if (component.endsWith('.lock')) return "has a part that ends with '.lock'"
    if (Buffer.byteLength(component) > MAX_COMPONENT_BYTES) {
      return `has a part that is longer than ${MAX_COMPONENT_BYTES} bytes`
    }
  }
  return undefined
}
