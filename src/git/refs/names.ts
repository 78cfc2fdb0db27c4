/** Checks the names of branches and refs, and object ids, by git's rules but without starting git. */
import { InvalidGitArgument } from '../process/errors.ts'

/** File systems allow 255 bytes, and git writes `NAME.lock` beside `NAME`. */
const MAX_COMPONENT_BYTES = 250
const MAX_NAME_BYTES = 1000

export const ZERO_ID = '0'.repeat(40)
/** The id of the empty tree, which git knows in every repository. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/** Refs that clients do not see: see `kept-refs.ts`. */
const HIDDEN = 'refs/mergelog/'

export const isHiddenRef = (ref: string) => ref.startsWith(HIDDEN)

/** Arguments of git commands for all refs but the hidden ones. */
export const VISIBLE_REFS = [`--exclude=${HIDDEN}*`, '--all'] as const

/** Whether only the server moves a ref: those of pull requests. */
export const isServersRef = (ref: string) => ref.startsWith('refs/pull/') || isHiddenRef(ref)

/** Whether a full name of a ref is the head of a pull request. */
export const isPullHead = (ref: string) => /^refs\/pull\/[1-9]\d{0,14}\/head$/.test(ref)

/** Whether the text is 40 lower-case hexadecimal digits that are not all zero. */
export function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text) && text !== ZERO_ID
}

/**
 * Returns why git would refuse `ref` as a full name (`refs/heads/main`); undefined for a valid name. These are the
 * rules of `git check-ref-format` and of the commands that create branches and tags. Two rules are stricter: the name
 * must not contain a control character of Unicode, and it must fit into a file system.
 */
export function refNameProblem(ref: string): string | undefined {
  if (!ref.startsWith('refs/')) return 'does not begin with refs/'
  const path = ref.slice('refs/'.length)
  const slash = path.indexOf('/')
  if (slash === -1) return 'does not name a branch, a tag or another kind of ref'
  const name = path.slice(slash + 1)
  if (path.startsWith('heads/')) return branchNameProblem(name)
  if (path.startsWith('tags/') && name.startsWith('-')) return "begins with '-'"
  return pathProblem(path)
}

/** Returns why `name` can't be the name of a branch; undefined for a valid name. */
export function branchNameProblem(name: string): string | undefined {
  if (name === '') return 'is empty'
  if (name === 'HEAD' || name === '@') return 'is a name that git reserves'
  if (name.startsWith('-')) return "begins with '-'"
  return pathProblem(name)
}

/**
 * Returns why a new branch or tag may not have a name that git accepts: most commands read it as something else.
 * Existing refs with such names keep working. GitHub refuses the same names.
 */
function ambiguity(name: string): string | undefined {
  if (name.startsWith('refs/')) return "begins with 'refs/'"
  return /^[0-9a-f]{40}$/i.test(name) ? 'looks like the id of an object' : undefined
}

/** Like `refNameProblem`, for a new ref. */
export function newRefProblem(ref: string): string | undefined {
  const [, name] = /^refs\/(?:heads|tags)\/(.*)$/s.exec(ref) ?? []
  return refNameProblem(ref) ?? (name === undefined ? undefined : ambiguity(name))
}

/** Like `branchNameProblem`, for a new branch. */
export const newBranchNameProblem = (name: string) => branchNameProblem(name) ?? ambiguity(name)

/** Returns the full ref of a branch. @throws InvalidGitArgument when the name can't be a branch */
export function branchRef(branch: string): string {
  const problem = branchNameProblem(branch)
  if (problem !== undefined) throw new InvalidGitArgument('branch', problem)
  return `refs/heads/${branch}`
}

/** Returns the ref. @throws InvalidGitArgument when git would refuse it */
export function checkedRef(ref: string): string {
  const problem = refNameProblem(ref)
  if (problem !== undefined) throw new InvalidGitArgument('ref', problem)
  return ref
}

/** Returns the object id. @throws InvalidGitArgument when it is not an object id */
export function checkedId(id: string): string {
  if (!isObjectId(id)) throw new InvalidGitArgument('object id', 'is not 40 lower-case hexadecimal digits')
  return id
}

function pathProblem(path: string): string | undefined {
  // UTF-8 can't encode lone surrogates: two different names would become the same bytes.
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
