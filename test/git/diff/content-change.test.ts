import { readdir } from 'node:fs/promises'
import t from 'tap'
import { hasContentChanged } from '../../../src/git/diff/content-change.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit } from '../client.ts'

const dir = `${t.testdir()}/1.git`
await createRepository(dir, { defaultBranch: 'main' })

const lines = (changed: Record<number, string> = {}, count = 20) =>
  Array.from({ length: count }, (_, i) => `${changed[i] ?? `line ${i}`}\n`).join('')

const files = { a: lines(), b: 'b\n', c: 'c\n' }
const main = await commit(dir, 'main', files, [])
const fixed = await commit(dir, 'a reviewed fix', { ...files, a: lines({ 1: 'fixed' }) }, [main])
const head = await commit(dir, 'change', { ...files, a: lines({ 10: 'new' }), b: 'new\n' }, [main])
const before = { base: main, head }
const changed = (after: { base: string; head: string }, from = before) => hasContentChanged(dir, from, after)

t.test('the same files changed in the same way, in any commits, are the same content', async (t) => {
  const squashed = await commit(dir, 'other words', { ...files, a: lines({ 10: 'new' }), b: 'new\n' }, [main])
  t.equal(await changed({ base: main, head: squashed }), false)
  const elsewhere = await commit(dir, 'another file in the base', { ...files, c: 'other\n' }, [main])
  const rebased = await commit(dir, 'rebased', { a: lines({ 10: 'new' }), b: 'new\n', c: 'other\n' }, [
    elsewhere,
  ])
  t.equal(await changed({ base: elsewhere, head: rebased }), false)
})

t.test('an identical patch on a base that has changed the same file is the same content', async (t) => {
  const merged = { ...files, a: lines({ 1: 'fixed', 10: 'new' }), b: 'new\n' }
  const rebased = await commit(dir, 'rebased', merged, [fixed])
  t.equal(await changed({ base: fixed, head: rebased }), false)
  t.equal(await changed({ base: fixed, head: await commit(dir, 'merged', merged, [head, fixed]) }), false)
})

t.test('omitting an approved file is a change', async (t) => {
  const dropped = await commit(dir, 'without b', { ...files, a: lines({ 10: 'new' }) }, [head])
  t.equal(await changed({ base: main, head: dropped }), true)
  t.equal(await changed(before, { base: main, head: dropped }), true, 'and to take it in again')
})

t.test("reverting the base's change is a change, also by `merge -s ours`", async (t) => {
  const ours = await commit(dir, 'merge -s ours', { ...files, a: lines({ 10: 'new' }), b: 'new\n' }, [
    head,
    fixed,
  ])
  t.equal(await changed({ base: fixed, head: ours }), true)
})

t.test('an equal patch text at another place is a change', async (t) => {
  const repeated = { a: 'start\nguard\nend\n'.repeat(9) }
  const base = await commit(dir, 'repeated', repeated, [])
  const at = (n: number) => {
    const parts = repeated.a.split('start\n')
    parts[n] = `inserted\n${parts[n]}`
    return commit(dir, `at ${n}`, { a: parts.join('start\n') }, [base])
  }
  t.equal(await changed({ base, head: await at(6) }, { base, head: await at(3) }), true)
})

t.test('a change that the base already has is no longer part of the content', async (t) => {
  const partly = await commit(dir, 'part of it', { ...files, b: 'new\n' }, [main])
  const rest = await commit(dir, 'the rest', { ...files, a: lines({ 10: 'new' }), b: 'new\n' }, [partly])
  t.equal(await changed({ base: partly, head: rest }), true, 'who approved both did not approve one')
  t.equal(await changed({ base: partly, head }, before), true, 'also by another base of the same head')
})

t.test('the path of a file is content', async (t) => {
  const renamed = await commit(dir, 'b is d', { a: lines({ 10: 'new' }), c: 'c\n', d: 'new\n' }, [main])
  t.equal(await changed({ base: main, head: renamed }), true)
})

t.test('a missing commit cannot be compared', async (t) => {
  await t.rejects(changed({ base: main, head: 'f'.repeat(40) }), { name: 'GitFailed' })
  await t.rejects(changed({ base: main, head: 'main' }), { name: 'InvalidGitArgument' })
})

t.test('a comparison leaves no objects', async (t) => {
  const merged = { ...files, a: lines({ 2: 'other', 10: 'new' }), b: 'new\n' }
  const other = await commit(dir, 'other', { ...files, a: lines({ 2: 'other' }) }, [main])
  const rebased = await commit(dir, 'rebased', merged, [other])
  const objects = await readdir(`${dir}/objects`, { recursive: true })
  t.equal(await changed({ base: other, head: rebased }), false)
  t.same(await readdir(`${dir}/objects`, { recursive: true }), objects)
})
