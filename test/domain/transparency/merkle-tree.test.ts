import fc from 'fast-check'
import t from 'tap'
import {
  consistencyProof,
  EMPTY_ROOT,
  growingTree,
  inclusionProof,
  leafHash,
  nodeHash,
  type ReadNode,
  rootOf,
  verifyConsistency,
  verifyInclusion,
} from '../../../src/domain/transparency/merkle-tree.ts'

/** The reference vectors of Certificate Transparency (RFC 6962). */
const DATA = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
]
const ROOTS = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]
const INCLUSION = [
  { index: 0, size: 1, hashes: [] },
  {
    index: 0,
    size: 8,
    hashes: [
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ],
  },
  {
    index: 5,
    size: 8,
    hashes: [
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ],
  },
  { index: 2, size: 3, hashes: ['fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125'] },
  {
    index: 1,
    size: 5,
    hashes: [
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ],
  },
]
const CONSISTENCY = [
  { from: 1, to: 1, hashes: [] },
  {
    from: 1,
    to: 8,
    hashes: [
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ],
  },
  {
    from: 6,
    to: 8,
    hashes: [
      '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ],
  },
  {
    from: 2,
    to: 5,
    hashes: [
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ],
  },
]

const hex = (text: string) => Buffer.from(text, 'hex')
const hexOf = (hashes: readonly Uint8Array[]) => hashes.map((hash) => Buffer.from(hash).toString('hex'))
const leaves = DATA.map((data) => leafHash(hex(data)))

/** Reads nodes by hashing the leaves below them. */
function nodesOf(all: readonly Uint8Array[]): ReadNode {
  return async function read(level, index): Promise<Uint8Array> {
    if (level === 0) return all[index] ?? EMPTY_ROOT
    return nodeHash(await read(level - 1, 2 * index), await read(level - 1, 2 * index + 1))
  }
}

/** The definition of RFC 6962, word for word. */
function definedRoot(all: readonly Uint8Array[]): Uint8Array {
  const [first, ...others] = all
  if (first === undefined) return EMPTY_ROOT
  if (others.length === 0) return first
  let k = 1
  while (k * 2 < all.length) k *= 2
  return nodeHash(definedRoot(all.slice(0, k)), definedRoot(all.slice(k)))
}

t.test(
  'Merkle tree: roots, inclusion and consistency proofs are those of the vectors of RFC 6962',
  async (t) => {
    const read = nodesOf(leaves)
    t.equal(EMPTY_ROOT.toString('hex'), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
    const growing = growingTree()
    t.strictSame(growing.root(), EMPTY_ROOT)
    for (const [i, root] of ROOTS.entries()) {
      growing.add(leaves[i] ?? EMPTY_ROOT)
      t.strictSame(hexOf([await rootOf(i + 1, read), growing.root()]), [root, root])
      t.equal(growing.size(), i + 1)
    }
    for (const { index, size, hashes } of INCLUSION) {
      t.strictSame(hexOf(await inclusionProof(index, size, read)), hashes, `inclusion of ${index} in ${size}`)
    }
    for (const { from, to, hashes } of CONSISTENCY) {
      t.strictSame(hexOf(await consistencyProof(from, to, read)), hashes, `${to} starts with ${from}`)
    }
  },
)

t.test('Merkle tree: each proof of each size and index is verified, and no other', async (t) => {
  const all = Array.from({ length: 70 }, (_, i) => leafHash(Buffer.from([i])))
  const read = nodesOf(all)
  const roots = all.map((_, i) => definedRoot(all.slice(0, i + 1)))
  const rootAt = (size: number) => roots[size - 1] ?? EMPTY_ROOT
  const failures: string[] = []
  const expect = (isTrue: boolean, what: string) => {
    if (!isTrue) failures.push(what)
  }
  for (let size = 1; size <= all.length; size++) {
    const root = rootAt(size)
    expect(Buffer.compare(await rootOf(size, read), root) === 0, `root of ${size}`)
    for (let index = 0; index < size; index++) {
      const hashes = await inclusionProof(index, size, read)
      const leaf = all[index] ?? EMPTY_ROOT
      const proof = { index, size, hashes, root }
      expect(verifyInclusion(leaf, proof), `inclusion of ${index} in ${size}`)
      expect(!verifyInclusion(all[(index + 1) % 70] ?? root, proof), `other leaf than ${index} in ${size}`)
      expect(!verifyInclusion(leaf, { ...proof, index: index + 1 }), `other index than ${index} in ${size}`)
      expect(!verifyInclusion(leaf, { ...proof, hashes: [...hashes, root] }), `longer: ${index} in ${size}`)
      if (size > 1) expect(!verifyInclusion(leaf, { ...proof, hashes: hashes.slice(1) }), `shorter: ${index}`)
    }
    for (let from = 1; from <= size; from++) {
      const hashes = await consistencyProof(from, size, read)
      const proof = { from, to: size, hashes, fromRoot: rootAt(from), toRoot: root }
      expect(verifyConsistency(proof), `${size} starts with ${from}`)
      expect(!verifyConsistency({ ...proof, fromRoot: EMPTY_ROOT }), `${size} starts with another ${from}`)
      expect(!verifyConsistency({ ...proof, toRoot: EMPTY_ROOT }), `another ${size} starts with ${from}`)
      expect(!verifyConsistency({ ...proof, hashes: [...hashes, root] }), `longer: ${from} in ${size}`)
      if (hashes.length > 0)
        expect(!verifyConsistency({ ...proof, hashes: hashes.slice(1) }), `shorter: ${from} in ${size}`)
    }
  }
  t.strictSame(failures, [])
  for (const [from, to] of [
    [0, 1],
    [2, 1],
    [-1, 1],
    [1.5, 2],
  ] as const) {
    t.notOk(verifyConsistency({ from, to, hashes: [], fromRoot: EMPTY_ROOT, toRoot: EMPTY_ROOT }))
  }
  for (const [index, size] of [
    [1, 1],
    [-1, 1],
    [0.5, 1],
    [0, Number.NaN],
  ] as const) {
    t.notOk(verifyInclusion(EMPTY_ROOT, { index, size, hashes: [], root: EMPTY_ROOT }))
  }
})

t.test('Merkle tree: a changed, removed, inserted or moved leaf changes the root', async () => {
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 4 })
  const trees = fc.array(bytes, { minLength: 2, maxLength: 40 })
  fc.assert(
    fc.property(trees, bytes, fc.nat(), (data, other, n) => {
      const root = (all: readonly Uint8Array[]) => {
        const tree = growingTree()
        for (const one of all) tree.add(leafHash(one))
        return Buffer.from(tree.root()).toString('hex')
      }
      const at = n % data.length
      const changed = [
        data.with(at, Buffer.concat([data[at] ?? other, other])),
        data.toSpliced(at, 1),
        data.toSpliced(at, 0, other),
      ]
      return changed.every((all) => root(all) !== root(data))
    }),
    { seed: 47, numRuns: 200 },
  )
})
