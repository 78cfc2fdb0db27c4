/**
 * Persistent (immutable) maps by id: versions share their unchanged nodes, so the cost of a change hardly depends on the size.
 * A fold that copies a `Map` at each event would block the event loop for seconds at some thousand members. Pure.
 */

/** Ids are integers from 0. Plain data: the functions below read it and return new versions. */
export interface IdMap<V> {
  readonly size: number
  readonly root: Node<V>
  /** The level of the root: see `placeOf`. */
  readonly top: number
}

type Node<V> = { values: readonly (V | undefined)[] } | { children: readonly (Node<V> | undefined)[] }

/** Number of children per node: each level of the tree stands for one digit of the id. */
const WIDTH = 32

/** Returns the index of an id in a node, from the digit that is `level` digits above its last one. */
const placeOf = (id: number, level: number) => Math.floor(id / WIDTH ** level) % WIDTH

const fits = (id: number, { top }: IdMap<unknown>) => id >= 0 && id < WIDTH ** (top + 1)

export const noIds = <V>(): IdMap<V> => ({ size: 0, root: { values: [] }, top: 0 })

/** Returns the value of an id; undefined when it is not in the map. */
export function valueAt<V>(map: IdMap<V>, id: number): V | undefined {
  if (!fits(id, map)) return undefined
  let node: Node<V> | undefined = map.root
  for (let level = map.top; node !== undefined && 'children' in node; level--) {
    node = node.children[placeOf(id, level)]
  }
  return node?.values[placeOf(id, 0)]
}

export const hasId = (map: IdMap<unknown>, id: number): boolean => valueAt(map, id) !== undefined

/** Returns a version in which the id has this value. */
export function withId<V extends NonNullable<unknown>>(map: IdMap<V>, id: number, value: V): IdMap<V> {
  const size = map.size + (hasId(map, id) ? 0 : 1)
  let larger = map
  while (!fits(id, larger)) larger = { ...larger, root: { children: [larger.root] }, top: larger.top + 1 }
  return { ...larger, size, root: changed(larger.root, larger.top, id, value) }
}

/** Returns a version without this id. */
export function withoutId<V>(map: IdMap<V>, id: number): IdMap<V> {
  if (!hasId(map, id)) return map
  return { ...map, size: map.size - 1, root: changed(map.root, map.top, id, undefined) }
}

/** Yields all ids with their values, in ascending order. */
export function* entriesOf<V>({ root }: IdMap<V>): Generator<[id: number, value: V]> {
  yield* entriesIn(root, 0)
}

export const idsOf = (map: IdMap<unknown>): number[] => [...entriesOf(map)].map(([id]) => id)

function changed<V>(node: Node<V> | undefined, level: number, id: number, value: V | undefined): Node<V> {
  const place = placeOf(id, level)
  if (level === 0) {
    const values = node !== undefined && 'values' in node ? node.values.slice() : []
    values[place] = value
    return { values }
  }
  const children = node !== undefined && 'children' in node ? node.children.slice() : []
  children[place] = changed(children[place], level - 1, id, value)
  return { children }
}

/** `above`: the digits of the ids above this node. */
function* entriesIn<V>(node: Node<V> | undefined, above: number): Generator<[id: number, value: V]> {
  if (node === undefined) return
  if ('children' in node) {
    for (const [place, child] of node.children.entries()) yield* entriesIn(child, above * WIDTH + place)
    return
  }
  for (const [place, value] of node.values.entries()) {
    if (value !== undefined) yield [above * WIDTH + place, value]
  }
}
