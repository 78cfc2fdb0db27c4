import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { deflateSync } from 'node:zlib'
import t from 'tap'
import { packet } from '../../src/git/http/pkt-line.ts'
import { sizeProblem } from '../../src/git/objects/pack-sizes.ts'
import { resolveRef } from '../../src/git/refs/refs.ts'
import { commit, userGit } from './client.ts'
import { idOf, packed, packOf } from './packs.ts'
import { serveRepository, serveWorkTree } from './served-repository.ts'

const MIB = 1024 * 1024
const MOST = 256 * MIB
const NONE = '0'.repeat(40)
const PERSON = 'A <a@example.org> 1700000000 +0000'

/** Encodes a number as in deltas. `zeros`: number of redundant leading digits. */
function varint(number: number, zeros = 0): Buffer {
  const digits: number[] = []
  for (let rest = number; rest > 0 || digits.length === 0; rest = Math.floor(rest / 128))
    digits.push(rest % 128)
  digits.push(...Array<number>(zeros).fill(0))
  return Buffer.from(digits.map((digit, i) => (i === digits.length - 1 ? digit : digit | 0x80)))
}

/** Encodes a delta that copies its base of one MiB `copies` times. */
const repeating = (times: number, zeros = 0) =>
  Buffer.concat([
    varint(MIB, zeros),
    varint(times * MIB),
    // From 0, 0x100000 bytes.
    ...Array.from({ length: times }, () => Buffer.from([0x80 | 0x40, 0x10])),
  ])

const base = Buffer.alloc(MIB, 'a')
const baseId = idOf('blob', base)

/** Encodes a file with a wrong size, or with a size with redundant digits. */
function declaring(size: number, content: Buffer, zeros = 0): Buffer {
  const first = Buffer.from([0x80 | (3 << 4) | (size % 16)])
  return Buffer.concat([first, varint(Math.floor(size / 16), zeros), deflateSync(content)])
}

for (const [kind, more] of [
  ['a pack of some kilobytes', []],
  ['a large pack', [packed(3, randomBytes(2 * MIB))]],
  ['a pack of many objects', Array.from({ length: 20 }, (_, i) => packed(3, Buffer.from(`${i}`)))],
] as const) {
  t.test(`an object that is too large is refused before git sees it: ${kind}`, async (t) => {
    const { url, dir, server } = await serveRepository(t, { maxObjectBytes: MOST })
    const first = await commit(dir, 'first', { f: '1', large: base.toString() }, [])
    await userGit(dir, ['update-ref', 'refs/heads/main', first])
    const push = async (objects: Buffer[], blob: string) => {
      const tree = Buffer.concat([Buffer.from('100644 a\0'), Buffer.from(blob, 'hex')])
      const tip = Buffer.from(
        `tree ${idOf('tree', tree)}\nparent ${first}\nauthor ${PERSON}\ncommitter ${PERSON}\n\nx\n`,
      )
      const command = packet(`${NONE} ${idOf('commit', tip)} refs/heads/next\0report-status side-band-64k`)
      const pack = packOf([...more, packed(1, tip), packed(2, tree), ...objects])
      const answer = await fetch(`${url}/git-receive-pack`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-git-receive-pack-request' },
        body: new Uint8Array(Buffer.concat([command, Buffer.from('0000'), pack])),
      })
      return Buffer.from(await answer.arrayBuffer()).toString('latin1')
    }
    const reason = (size: number) =>
      `ng refs/heads/next an object has ${size} bytes, and may have at most ${MOST}`
    const any = 'ab'.repeat(20)
    t.match(await push([packed(3, base), packed(7, repeating(600), baseId)], any), reason(600 * MIB))
    t.match(await push([packed(7, repeating(257), baseId)], any), reason(257 * MIB), 'on what is there')
    t.match(await push([declaring(MOST + 1, Buffer.alloc(10))], any), reason(MOST + 1), 'not a delta')
    t.match(await push([declaring(2 ** 60, Buffer.alloc(10))], any), /an object has 11529215046068\d+ bytes/)
    t.same(server.recorded, [])
    t.same(
      (await readdir(`${dir}/objects`)).filter((name) => name.startsWith('tmp')),
      [],
    )
  })
}

t.test('an object whose sizes only git can parse does not bypass the limit', async (t) => {
  const most = 4 * MIB
  const limits = { most, workMs: 60_000 }
  const piece = 16 * 1024
  const sizeIn = (object: Buffer) => {
    const pack = packOf([object])
    const parts = Array.from({ length: Math.ceil(pack.length / piece) }, (_, i) =>
      pack.subarray(i * piece, (i + 1) * piece),
    )
    return sizeProblem(Readable.from(parts, { objectMode: false }), limits)
  }
  // Its instructions have more than 64 KiB, so only its beginning is kept.
  const long = Buffer.concat([
    repeating(20, 30),
    ...Array.from({ length: 600 }, () => Buffer.concat([Buffer.from([127]), Buffer.alloc(127)])),
  ])
  t.ok(await sizeIn(packed(7, long, baseId)), 'a delta')
  t.ok(await sizeIn(packed(7, repeating(20, 30), baseId)), 'a short delta')
  t.ok(await sizeIn(declaring(most + 1, Buffer.alloc(most + 1), piece)), 'a file')

  const { url, dir, server } = await serveRepository(t, { maxObjectBytes: most })
  await commit(dir, 'first', { large: base.toString() }, [])
  const answer = await fetch(`${url}/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    body: new Uint8Array(
      Buffer.concat([
        packet(`${NONE} ${'ab'.repeat(20)} refs/heads/next\0report-status`),
        Buffer.from('0000'),
        packOf([packed(7, long, baseId)]),
      ]),
    ),
  })
  t.match(await answer.text(), 'ng refs/heads/next the pack is broken')
  t.same(server.recorded, [])
})

t.test('pushes of objects within the limit are accepted', async (t) => {
  const { work, dir, push } = await serveWorkTree(t, { maxObjectBytes: 3 * MIB })
  const text = (of: string) => Array.from({ length: 20_000 }, (_, i) => `${of} ${i * 7919}\n`).join('')
  const noise = randomBytes(2 * MIB)
    .toString('latin1')
    .slice(0, MIB)
  const first = await commit(work, 'first', { a: text('a'), noise, empty: '' }, [])
  t.equal((await push('origin', `${first}:refs/heads/main`)).code, 0)
  const second = await commit(work, 'second', { a: `${text('a')}${noise.slice(0, 200_000)}`, noise }, [first])
  t.equal((await push('origin', `${second}:refs/heads/main`)).code, 0, 'a large delta on what is there')
  const many = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`f${i}`, text(`${i}`).slice(0, 277 * i)]),
  )
  const third = await commit(work, 'third', many, [second])
  t.equal((await push('origin', `${third}:refs/heads/main`)).code, 0)
  t.equal(await resolveRef(dir, 'refs/heads/main'), third)
  const large = await commit(work, 'large', { large: 'x'.repeat(3 * MIB + 1) }, [third])
  const { code, stderr } = await push('origin', `${large}:refs/heads/large`, `${third}:refs/heads/other`)
  t.equal(code, 1)
  t.match(stderr, /-> large \(an object has 3145729 bytes, and may have at most 3145728\)/)
})

t.test('the sizes in a pack are parsed from chunks of any length; a broken pack is refused', async (t) => {
  const noise = randomBytes(200_000)
  const stored = deflateSync(randomBytes(5000), { level: 0 })
  const objects = [
    packed(3, noise),
    packed(3, Buffer.alloc(0)),
    packed(3, Buffer.alloc(300_000)),
    Buffer.concat([packed(7, Buffer.concat([varint(1), varint(2), noise.subarray(0, 100_000)]), baseId)]),
    packed(3, Buffer.from('last')),
  ]
  const limits = { most: MIB, workMs: 60_000 }
  const inParts = (pack: Buffer, size: number) => {
    const parts = Array.from({ length: Math.ceil(pack.length / size) }, (_, i) =>
      pack.subarray(i * size, (i + 1) * size),
    )
    return Readable.from(parts, { objectMode: false })
  }
  const whole = packOf(objects)
  const bad = packOf([...objects, packed(7, repeating(2), baseId)])
  for (const size of [997, 64 * 1024, bad.length]) {
    t.equal(await sizeProblem(inParts(whole, size), limits), undefined, `${size}`)
    t.match(await sizeProblem(inParts(bad, size), limits), 'an object has 2097152 bytes', `${size}`)
  }
  t.match(await sizeProblem(inParts(bad.subarray(0, 300_000), 1000), limits), 'broken', 'cut off')
  t.match(await sizeProblem(inParts(packOf([stored, ...objects]), 1000), limits), 'broken', 'not an object')
  t.equal(await sizeProblem(Readable.from([], { objectMode: false }), limits), undefined, 'no pack')
  t.match(await sizeProblem(inParts(whole, 1000), { ...limits, workMs: -1 }), 'took longer')
})
