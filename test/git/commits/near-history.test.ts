import t, { type Test } from 'tap'
import { nearMergeBase, nearRange } from '../../../src/git/commits/near-history.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { userGit } from '../client.ts'

/** Creates commits, each given by the numbers of its parents, which come earlier. Resolves to the ids. */
async function history(t: Test, parents: readonly (readonly number[])[]) {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  const stream = parents.map(([from, ...merged], i) => {
    const lines = [`reset refs/heads/c${i}`, `commit refs/heads/c${i}`, `mark :${i + 1}`]
    lines.push(`committer C <c@x> ${1_700_000_000 + i} +0000`, 'data 0')
    if (from !== undefined) lines.push(`from :${from + 1}`)
    return [...lines, ...merged.map((parent) => `merge :${parent + 1}`), ''].join('\n')
  })
  await userGit(dir, ['fast-import', '--quiet'], stream.join('\n'))
  const ids = await userGit(dir, ['rev-parse', ...parents.map((_, i) => `refs/heads/c${i}`)])
  return { dir, ids: ids.split('\n') }
}

/** A commit and all its ancestors. */
function ancestors(parents: readonly (readonly number[])[], of: number): Set<number> {
  const found = new Set([of])
  for (const each of found) for (const parent of parents[each] ?? []) found.add(parent)
  return found
}

/** All best common ancestors, by definition. */
function mergeBases(parents: readonly (readonly number[])[], a: number, b: number): number[] {
  const ofB = ancestors(parents, b)
  const common = [...ancestors(parents, a)].filter((each) => ofB.has(each))
  return common.filter(
    (each) => !common.some((other) => other !== each && ancestors(parents, other).has(each)),
  )
}

t.test('merge bases are found in a line of commits, at a fork and at a merge', async (t) => {
  // 0 - 1 - 2 - 3 and 1 - 4 - 5; 6 merges 3 and 5; 7 has no parent.
  const { dir, ids } = await history(t, [[], [0], [1], [2], [1], [4], [3, 5], []])
  const near = async (a: number, b: number) => {
    const found = await nearMergeBase(dir, ids[a] ?? '', ids[b] ?? '')
    return found === undefined ? undefined : ids.indexOf(found)
  }
  t.equal(await near(3, 3), 3, 'the same commit')
  t.equal(await near(0, 3), 0, 'an ancestor')
  t.equal(await near(3, 0), 0, 'a descendant')
  t.equal(await near(3, 5), 1, 'a fork')
  t.equal(await near(6, 5), 5, 'a parent of a merge')
  t.equal(await near(3, 6), 3, 'the other parent')
  t.equal(await near(6, 4), undefined, 'beyond a merge')
  t.equal(await near(3, 7), undefined, 'nothing shared')
  t.equal(await nearMergeBase(dir, 'e'.repeat(40), ids[0] ?? ''), undefined, 'a commit that is missing')
  t.equal(await nearMergeBase(dir, 'e'.repeat(40), 'e'.repeat(40)), undefined)
})

t.test('distant commits are left to git', async (t) => {
  const { dir, ids } = await history(
    t,
    Array.from({ length: 40 }, (_, i) => (i === 0 ? [] : [i - 1])),
  )
  t.equal(await nearMergeBase(dir, ids[39] ?? '', ids[36] ?? ''), ids[36])
  t.equal(await nearMergeBase(dir, ids[39] ?? '', ids[0] ?? ''), undefined)
  t.same(await nearRange(dir, ids[36] ?? '', ids[39] ?? ''), [ids[39], ids[38], ids[37]])
  t.same(await nearRange(dir, ids[39] ?? '', ids[36] ?? ''), [])
  t.equal(await nearRange(dir, ids[0] ?? '', ids[39] ?? ''), undefined)
})

t.test('in random histories, a result is always the only best common ancestor', async (t) => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((seed / 2 ** 31) * below)
  }
  const parents = Array.from({ length: 60 }, (_, i) => {
    if (i === 0 || random(20) === 0) return []
    const recent = () => Math.max(0, i - 1 - random(4))
    const [first, second] = [recent(), recent()]
    return random(4) === 0 && first !== second ? [first, second] : [first]
  })
  const { dir, ids } = await history(t, parents)
  let shown = 0
  let ranges = 0
  for (const [a, one] of ids.entries()) {
    for (const [b, other] of ids.entries()) {
      const near = await nearMergeBase(dir, one, other)
      const range = await nearRange(dir, one, other)
      if (range !== undefined) {
        ranges += 1
        const gained = [...ancestors(parents, b)].filter((each) => !ancestors(parents, a).has(each))
        const expected = gained.sort((x, y) => y - x).map((each) => ids[each])
        if (range.join() !== expected.join()) t.same(range, expected, `from ${a} to ${b}`)
      }
      if (near === undefined) continue
      shown += 1
      const expected = mergeBases(parents, a, b).map((each) => ids[each])
      if (expected.length !== 1 || expected[0] !== near) t.same([near], expected, `${a} and ${b}`)
    }
  }
  t.ok(shown > 500, `${shown} pairs`)
  t.ok(ranges > 300, `${ranges} ranges`)
})
