/** Applies changes of files to a tree: checks each, and returns the new entry of each path. Pure. */

import { isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import { type FileAt, kindOf, type TreeEntry } from '../../git/trees/tree-entries.ts'
import { newPathProblem, partsOf } from '../../git/trees/tree-path.ts'

/** `upload` is `create` or `update`; `rename` keeps the content. */
export const OPERATIONS = ['create', 'update', 'upload', 'rename', 'delete'] as const
export type Operation = (typeof OPERATIONS)[number]

/** One change of a file. Changes of a commit are applied in order. */
export interface FileChange {
  operation: Operation
  path: string
  /** The path before the change; `path` by default. */
  fromPath: string
  /** The blob id that the client expects; empty for any. */
  sha: string
  /** The blob with the new content, for operations that have one. */
  blob?: string | undefined
  /** Prefix of field names in refusals: `files.0.`, or empty. */
  field: string
}

/** Looks up the entry of a path or a directory above it; undefined when there is none. */
export type TreeLookup = (path: string) => Pick<TreeEntry, 'mode' | 'id'> | undefined

type Entry = Pick<TreeEntry, 'mode' | 'id'> | undefined

/** Returns the normalized path, or a refusal for an invalid one. */
function pathIn(path: string, field: string): string | Refusal {
  const parts = partsOf(path)
  if (parts === undefined || parts.length === 0) {
    const reason = `${field}: is not the path of a file`
    return refuse.unprocessable(reason, [reason])
  }
  return parts.join('/')
}

/** Returns why a change is invalid in any tree. */
export function changeProblem({
  operation,
  path,
  fromPath,
  blob,
  field,
}: Omit<FileChange, 'blob'> & { blob?: unknown }): Refusal | undefined {
  const invalid = (name: string, reason: string) => {
    const text = `${field}${name}: ${reason}`
    return refuse.unprocessable(text, [text])
  }
  if (fromPath !== path) {
    const from = pathIn(fromPath, `${field}from_path`)
    if (typeof from !== 'string') return from
  }
  if (operation === 'delete') {
    const target = pathIn(path, `${field}path`)
    return typeof target === 'string' ? undefined : target
  }
  const problem = newPathProblem(path)
  if (problem !== undefined) return invalid('path', problem)
  if (operation === 'rename' && fromPath === path) return invalid('from_path', 'is required for a rename')
  if (operation !== 'rename' && blob === undefined) return invalid('content', 'is missing')
  return undefined
}

/** Returns the changed files by path (null: removed), or a refusal. */
export function filesAfter(
  changes: readonly FileChange[],
  before: TreeLookup,
): Map<string, FileAt | null> | Refusal {
  const after = new Map<string, FileAt | null>()
  const directories = new Set<string>()
  const at = (path: string): Entry => {
    if (directories.has(path)) return { mode: '40000', id: '' }
    const changed = after.get(path)
    return changed === undefined ? before(path) : (changed ?? undefined)
  }
  for (const change of changes) {
    const result = decideChange(change, at)
    if (isRefusal(result)) return result
    for (const [path, file] of result) {
      after.set(path, file)
      if (file === null) continue
      for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', end + 1)) {
        directories.add(path.slice(0, end))
      }
    }
  }
  return after
}

function decideChange(change: FileChange, at: TreeLookup): [path: string, file: FileAt | null][] | Refusal {
  const { operation, field, blob } = change
  const path = pathIn(change.path, `${field}path`)
  const from = pathIn(change.fromPath, `${field}from_path`)
  if (typeof path !== 'string') return path
  if (typeof from !== 'string') return from
  const entry = at(from)
  if (operation !== 'create') {
    const stale = staleRefusal(change, from, entry)
    if (stale !== undefined) return stale
  }
  if (operation === 'delete') return [[path, null]]
  const taken = takenRefusal(change, path, from, at)
  if (taken !== undefined) return taken
  const isKept = operation === 'rename' && entry !== undefined
  const file: FileAt = isKept
    ? { mode: fileMode(entry), id: entry.id }
    : { mode: operation !== 'create' && entry?.mode === '100755' ? '100755' : '100644', id: blob ?? '' }
  return from === path
    ? [[path, file]]
    : [
        [from, null],
        [path, file],
      ]
}

const fileMode = ({ mode }: Pick<TreeEntry, 'mode'>): FileAt['mode'] =>
  mode === '100755' || mode === '120000' || mode === '160000' ? mode : '100644'

/** Returns a refusal when the file to change is missing, or differs from the expected blob. */
function staleRefusal(
  { operation, sha, field }: FileChange,
  from: string,
  entry: Entry,
): Refusal | undefined {
  if (entry === undefined && operation !== 'upload') return refuse.notFound(`file ${from} not found`)
  const kind = entry && kindOf(entry)
  if (kind === 'dir') {
    if (operation === 'delete') return refuse.notFound(`${from} is a directory, not a file`)
    return pathTaken(field, `${from} is a directory`)
  }
  if (kind === 'submodule' && operation !== 'delete') return pathTaken(field, `${from} is a submodule`)
  if (sha === '' || sha === entry?.id) return undefined
  const reason = `${field}sha: is not the blob id of ${from}, which is ${entry?.id ?? 'missing'}`
  return refuse.unprocessable(reason, [reason])
}

/** Returns a refusal when the path is not free. */
function takenRefusal(
  { operation, field }: FileChange,
  path: string,
  from: string,
  at: TreeLookup,
): Refusal | undefined {
  for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', end + 1)) {
    const above = at(path.slice(0, end))
    if (above === undefined) break
    if (kindOf(above) !== 'dir') return pathTaken(field, `${path.slice(0, end)} is a file, not a directory`)
  }
  const there = at(path)
  if (there === undefined) return undefined
  const kind = kindOf(there)
  if (kind === 'dir') return pathTaken(field, `${path} is a directory`)
  if (kind === 'symlink') return pathTaken(field, `${path} is a symbolic link`)
  if (kind === 'submodule') return pathTaken(field, `${path} is a submodule`)
  if (operation === 'create' || (from !== path && operation !== 'upload')) {
    return pathTaken(field, `${path} exists already`)
  }
  return undefined
}

function pathTaken(field: string, reason: string): Refusal {
  const text = `${field}path: ${reason}`
  return refuse.unprocessable(text, [text])
}

/** Returns Gitea's default message: the added, updated and deleted files. */
export function defaultMessage(changes: readonly Pick<FileChange, 'operation' | 'path'>[]): string {
  const words = {
    create: 'Add',
    update: 'Update',
    upload: 'Update',
    rename: 'Update',
    delete: 'Delete',
  } as const
  return ['Add', 'Update', 'Delete']
    .flatMap((word) => {
      const paths = changes.filter(({ operation }) => words[operation] === word).map(({ path }) => path)
      return paths.length === 0 ? [] : [`${word} ${paths.join(', ')}`]
    })
    .join('\n')
}
