/**
 * Checks an ordinary small push without a process: it uses only reachable objects of the repository, and brings only
 * objects that its refs reach. It relies on ids only: a client that sends an object, or a delta on a reachable object,
 * has that object. So git may read an unusual pack in another way.
 */
import { applyDelta } from '../objects/delta.ts'
import { type ObjectType, objectId } from '../objects/loose-objects.ts'
import { objectReaders } from '../objects/object-readers.ts'
import type { PackedObject, SentPack } from '../objects/small-pack.ts'
import { defaultBranchRef, readRefFiles } from '../refs/ref-files.ts'
import { entriesOf, idsBesidePaths, TYPE_OF_MODE } from '../trees/tree-neighbors.ts'
import { newTips, type PushRequest } from './push-request.ts'

/** Limits that bound the time in the event loop to a few milliseconds. */
const MAX_REFS = 8
const MAX_BYTES = 1024 * 1024
const MAX_ENTRIES = 5000

const MODULE_MODE = '160000'
const OBJECT_TYPES: readonly ObjectType[] = ['commit', 'tree', 'blob']
/** Like git, takes only the lines between tree and author as parents. */
const HEAD_OF_COMMIT = /^tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author /
/** Length of the beginning of a commit that is searched for parents, in bytes. */
const MAX_HEAD = 1024

interface KnownObject {
  type: ObjectType
  content: Buffer
}

/**
 * Whether the push uses only its own objects, or objects beside its changes at the tips of its refs and of the default
 * branch, and its refs need all objects that it brings. False also when this would take many reads.
 * @throws GitUnavailable, GitFailed, RepositoryMissing
 */
export async function isSelfContained({
  dir,
  push,
  pack,
}: {
  dir: string
  push: PushRequest
  pack: SentPack
}): Promise<boolean> {
  if (pack.objects === undefined || push.commands.length > MAX_REFS || push.shallow.length > 0) return false
  const sent = await sentObjects(dir, pack.objects)
  if (sent === undefined) return false
  const needed = neededBy(push, sent.objects)
  if (needed === undefined || !(await areTips(dir, push, needed.commits))) return false
  const others = [...needed.entries, ...sent.bases]
  if (others.length === 0) return true
  const near = await idsBesidePaths(dir, [...needed.commits], needed.paths)
  return others.every((id) => near.has(id))
}

interface SentObjects {
  objects: ReadonlyMap<string, KnownObject>
  /** Objects of the repository that are delta bases. */
  bases: ReadonlySet<string>
}

/** Resolves the objects of a pack by id; undefined when they are too large, or a delta can't be applied. */
async function sentObjects(dir: string, packed: readonly PackedObject[]): Promise<SentObjects | undefined> {
  const objects = new Map<string, KnownObject>()
  const places = new Map<number, KnownObject>()
  const bases = new Map<string, KnownObject>()
  let left = MAX_BYTES
  let isBroken = false

  const baseOf = ({ base }: PackedObject) => {
    if (typeof base === 'number') return places.get(base)
    return base === undefined ? undefined : (objects.get(base) ?? bases.get(base))
  }

  /** Resolves the objects whose bases are known, and returns the others. */
  function resolveKnown(pending: readonly PackedObject[]): PackedObject[] {
    const rest = pending.filter((one) => {
      const base = baseOf(one)
      const type = one.type ?? base?.type
      if (isBroken || type === undefined) return true
      const content = base === undefined ? one.content : applyDelta(base.content, one.content, left)
      if (content === undefined) {
        isBroken = true
        return true
      }
      left -= content.length
      const object = { type, content }
      places.set(one.at, object)
      objects.set(objectId(type, content), object)
      return false
    })
    return rest.length === 0 || rest.length === pending.length ? rest : resolveKnown(rest)
  }

  const rest = resolveKnown(packed)
  if (rest.length > 0 && !isBroken) {
    const named = new Set(rest.map(({ base }) => base).filter((base) => typeof base === 'string'))
    const headers = (await objectReaders.headers(dir, [...named])).filter((header) => header !== undefined)
    left -= headers.reduce((bytes, { size }) => bytes + size, 0)
    if (left < 0) return undefined
    await objectReaders.contents(dir, headers, ({ sha, type }, content) => {
      const known = OBJECT_TYPES.find((name) => name === type)
      if (known !== undefined) bases.set(sha, { type: known, content })
    })
    if (resolveKnown(rest).length > 0) return undefined
  }
  // A base counts as used even if the push brings it: two deltas may build on each other.
  return isBroken ? undefined : { objects, bases: new Set(bases.keys()) }
}

interface Needed {
  commits: Set<string>
  /** Trees and files. */
  entries: Set<string>
  /** Paths of the trees of the push, as bytes in latin1. */
  paths: Set<string>
}

/**
 * Returns the objects that the new tips need and the push lacks; undefined when this is unclear, or when they do not need
 * all objects of the push.
 */
function neededBy(push: PushRequest, sent: ReadonlyMap<string, KnownObject>): Needed | undefined {
  const needed: Needed = { commits: new Set(), entries: new Set(), paths: new Set() }
  const todo: { id: string; type: ObjectType; path: string }[] = []
  for (const id of newTips(push)) todo.push({ id, type: 'commit', path: '' })
  const seen = new Set<string>()
  const unused = new Set(sent.keys())
  let looked = 0
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { id, type, path } = next
    const object = sent.get(id)
    if (object === undefined) {
      if (type === 'commit') needed.commits.add(id)
      else needed.entries.add(id)
      continue
    }
    if (object.type !== type) return undefined
    unused.delete(id)
    if (type === 'blob' || seen.has(`${id} ${path}`)) continue
    seen.add(`${id} ${path}`)
    if (type === 'commit') {
      const links = linksOf(object.content)
      if (links === undefined) return undefined
      todo.push({ id: links.tree, type: 'tree', path: '' })
      for (const parent of links.parents) todo.push({ id: parent, type: 'commit', path: '' })
      continue
    }
    needed.paths.add(path)
    for (const entry of entriesOf(object.content)) {
      looked += 1
      const kind = TYPE_OF_MODE.get(entry.mode)
      if (looked > MAX_ENTRIES || (kind === undefined && entry.mode !== MODULE_MODE)) return undefined
      if (kind === undefined) continue
      const inner = path === '' ? entry.name : `${path}/${entry.name}`
      if (sent.has(entry.id)) todo.push({ id: entry.id, type: kind, path: inner })
      else needed.entries.add(entry.id)
    }
  }
  return unused.size === 0 ? needed : undefined
}

/** Returns the tree and the parents of a commit; undefined for an unusual format. */
function linksOf(commit: Buffer): { tree: string; parents: string[] } | undefined {
  const head = commit.toString('latin1', 0, MAX_HEAD)
  const [, tree, lines = ''] = HEAD_OF_COMMIT.exec(head) ?? []
  if (tree === undefined) return undefined
  return {
    tree,
    parents: lines.split('\n').flatMap((line) => (line === '' ? [] : line.slice('parent '.length))),
  }
}

/** Whether these are the current tips of the push's refs or of the default branch. */
async function areTips(
  dir: string,
  { commands }: PushRequest,
  commits: ReadonlySet<string>,
): Promise<boolean> {
  const refs = commands.flatMap(({ ref, from }) => (from === null ? [] : [ref]))
  const known = new Set((await readRefFiles(dir, refs)).values())
  if ([...commits].every((id) => known.has(id))) return true
  const main = await defaultBranchRef(dir)
  if (main === undefined) return false
  const tip = (await readRefFiles(dir, [main])).get(main)
  return [...commits].every((id) => known.has(id) || id === tip)
}
