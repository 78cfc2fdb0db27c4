/**
 * The Merkle tree of RFC 6962 and RFC 9162: hashes, proofs, and their verification. Sizes and indexes are safe integers.
 */
import { hash } from 'node:crypto'

const LEAF = Buffer.from([0])
const NODE = Buffer.from([1])

const sha256 = (parts: readonly Uint8Array[]) => hash('sha256', Buffer.concat(parts), 'buffer')

/** The root of the tree without leaves. */
export const EMPTY_ROOT = sha256([])

/** Returns the hash of a leaf. */
export const leafHash = (data: Uint8Array): Buffer => sha256([LEAF, data])

/** Returns the hash of an inner node. */
export const nodeHash = (left: Uint8Array, right: Uint8Array): Buffer => sha256([NODE, left, right])

/**
 * Returns the hash of a complete subtree: of the leaves from `index * 2 ** level` up to, but not including,
 * `(index + 1) * 2 ** level`.
 */
export type ReadNode = (level: number, index: number) => Promise<Uint8Array>

/** The leaves from `start` up to, but not including, `end`. */
interface Range {
  start: number
  end: number
}

/** Returns the largest power of two below `size`, which is at least 2. */
function splitOf(size: number): number {
  let split = 1
  while (2 * split < size) split *= 2
  return split
}

/** Returns the hash of a subtree that the tree of RFC 6962 has, complete or at its right edge. */
async function rangeHash({ start, end }: Range, read: ReadNode): Promise<Uint8Array> {
  const size = end - start
  const level = Math.round(Math.log2(size))
  if (2 ** level === size) return read(level, start / size)
  const middle = start + splitOf(size)
  return nodeHash(
    await rangeHash({ start, end: middle }, read),
    await rangeHash({ start: middle, end }, read),
  )
}

const hashesOf = (ranges: readonly Range[], read: ReadNode) =>
  Promise.all(ranges.map((range) => rangeHash(range, read)))

/** Returns the root of the tree of the first `size` leaves. */
export async function rootOf(size: number, read: ReadNode): Promise<Uint8Array> {
  return size === 0 ? EMPTY_ROOT : await rangeHash({ start: 0, end: size }, read)
}

function inclusionRanges(index: number, { start, end }: Range): Range[] {
  if (end - start === 1) return []
  const middle = start + splitOf(end - start)
  const [left, right] = [
    { start, end: middle },
    { start: middle, end },
  ]
  return index < middle ? [...inclusionRanges(index, left), right] : [...inclusionRanges(index, right), left]
}

/** Returns the proof that the leaf with `index` is in the tree of the first `size` leaves: `PATH` of RFC 9162. */
export async function inclusionProof(index: number, size: number, read: ReadNode): Promise<Uint8Array[]> {
  return hashesOf(inclusionRanges(index, { start: 0, end: size }), read)
}

/** `isWhole`: whether the range starts with all leaves of the smaller tree, so that the verifier knows its root. */
function consistencyRanges(from: number, { start, end }: Range, isWhole: boolean): Range[] {
  if (from === end) return isWhole ? [] : [{ start, end }]
  const middle = start + splitOf(end - start)
  const [left, right] = [
    { start, end: middle },
    { start: middle, end },
  ]
  return from <= middle
    ? [...consistencyRanges(from, left, isWhole), right]
    : [...consistencyRanges(from, right, false), left]
}

/**
 * Returns the proof that the tree of the first `to` leaves starts with that of the first `from`, which is at least 1:
 * `PROOF` of RFC 9162.
 */
export async function consistencyProof(from: number, to: number, read: ReadNode): Promise<Uint8Array[]> {
  return hashesOf(consistencyRanges(from, { start: 0, end: to }, true), read)
}

/** A proof has too few hashes. */
class TooShort extends Error {}

/** Returns a function that takes the hashes of a proof from its end. */
function taker(hashes: readonly Uint8Array[]) {
  const left = [...hashes]
  return {
    take(): Uint8Array {
      const last = left.pop()
      if (last === undefined) throw new TooShort()
      return last
    },
    isEmpty: () => left.length === 0,
  }
}

const isIndex = (value: number) => Number.isSafeInteger(value) && value >= 0
const isEqual = (one: Uint8Array, other: Uint8Array) => Buffer.compare(one, other) === 0

/** Returns the result of `verify`, or false when a proof is too short for it. */
function unlessTooShort(verify: () => boolean): boolean {
  try {
    return verify()
  } catch (error) {
    if (error instanceof TooShort) return false
    throw error
  }
}

/** Whether the proof shows that the leaf with this hash has `index` in the tree of `size` leaves with this root. */
export function verifyInclusion(
  leaf: Uint8Array,
  proof: { index: number; size: number; hashes: readonly Uint8Array[]; root: Uint8Array },
): boolean {
  const { take, isEmpty } = taker(proof.hashes)
  function hashAt(index: number, size: number): Uint8Array {
    if (size === 1) return leaf
    const split = splitOf(size)
    const sibling = take()
    return index < split
      ? nodeHash(hashAt(index, split), sibling)
      : nodeHash(sibling, hashAt(index - split, size - split))
  }
  const { index, size } = proof
  if (!isIndex(index) || !isIndex(size) || index >= size) return false
  return unlessTooShort(() => isEqual(hashAt(index, size), proof.root) && isEmpty())
}

/** Whether the proof shows that the tree with `toRoot` starts with all leaves of the tree with `fromRoot`. */
export function verifyConsistency(proof: {
  from: number
  to: number
  hashes: readonly Uint8Array[]
  fromRoot: Uint8Array
  toRoot: Uint8Array
}): boolean {
  const { take, isEmpty } = taker(proof.hashes)
  /** The hashes of a subtree in both trees. */
  function hashesAt(from: number, to: number, isWhole: boolean): [Uint8Array, Uint8Array] {
    if (from === to) {
      const same = isWhole ? proof.fromRoot : take()
      return [same, same]
    }
    const split = splitOf(to)
    const sibling = take()
    if (from <= split) {
      const [before, after] = hashesAt(from, split, isWhole)
      return [before, nodeHash(after, sibling)]
    }
    const [before, after] = hashesAt(from - split, to - split, false)
    return [nodeHash(sibling, before), nodeHash(sibling, after)]
  }
  const { from, to } = proof
  if (!isIndex(from) || !isIndex(to) || from === 0 || from > to) return false
  return unlessTooShort(() => {
    const [before, after] = hashesAt(from, to, true)
    return isEqual(before, proof.fromRoot) && isEqual(after, proof.toRoot) && isEmpty()
  })
}

/** A tree that keeps only its right edge: one hash per complete subtree, at most 53. */
export interface GrowingTree {
  size(): number
  /** Adds the hash of the next leaf. */
  add(leaf: Uint8Array): void
  /** Returns the root of all leaves so far. */
  root(): Uint8Array
}

export function growingTree(): GrowingTree {
  /** The complete subtrees, the largest first. */
  const edge: { leaves: number; hash: Uint8Array }[] = []
  let size = 0
  return {
    size: () => size,
    add(leaf) {
      let node = { leaves: 1, hash: leaf }
      size += 1
      for (let last = edge.at(-1); last?.leaves === node.leaves; last = edge.at(-1)) {
        edge.pop()
        node = { leaves: 2 * node.leaves, hash: nodeHash(last.hash, node.hash) }
      }
      edge.push(node)
    },
    root() {
      let root = edge.at(-1)?.hash ?? EMPTY_ROOT
      for (let i = edge.length - 2; i >= 0; i--) root = nodeHash(edge[i]?.hash ?? EMPTY_ROOT, root)
      return root
    },
  }
}
