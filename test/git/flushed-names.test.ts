/** Acknowledged writes survive a power cut: the names of new directories are on disk, too. */
import { hash, randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { receiveLfsFile, shareLfsFiles } from '../../src/git/lfs/lfs-files.ts'
import { storeObject } from '../../src/git/objects/loose-objects.ts'
import { EMPTY_TREE } from '../../src/git/refs/names.ts'
import { updateRef } from '../../src/git/refs/refs.ts'
import { createRepository } from '../../src/git/repository/repository.ts'
import { scaffoldCommit, withStaging } from '../../src/git/repository/staging.ts'
import { openAttachmentFiles } from '../../src/storage/attachments/files.ts'
import { makeDirectory } from '../../src/storage/disk.ts'
import { flushedPaths } from '../flushed-paths.ts'
import { commit } from './client.ts'

async function setUp(t: Test) {
  const parent = t.testdir()
  const dir = join(parent, '1.git')
  await createRepository(dir, { defaultBranch: 'main' })
  const tip = await commit(dir, 'a', { f: '1' }, [])
  return { parent, dir, tip, flushed: flushedPaths(t) }
}

async function* chunks(text: string) {
  yield Buffer.from(text)
}

function flushes(t: Test, flushed: readonly string[], dir: string, names: readonly string[]): void {
  for (const name of names) t.ok(flushed.includes(join(dir, name)), `${name === '' ? '.' : name} is flushed`)
}

t.test('a new repository', async (t) => {
  const flushed = flushedPaths(t)
  const parent = t.testdir()
  await createRepository(join(parent, '1.git'), { defaultBranch: 'main' })
  t.match(
    flushed.find((path) => path.endsWith('/refs')),
    /1\.git/,
  )
  t.match(
    flushed.find((path) => path.endsWith('/objects')),
    /1\.git/,
  )
})

t.test('a branch in new directories', async (t) => {
  const { dir, tip, flushed } = await setUp(t)
  t.equal(await updateRef(dir, 'refs/heads/a/b/c', { from: null, to: tip }), 'moved')
  flushes(t, flushed, dir, ['refs/heads/a/b', 'refs/heads/a', 'refs/heads'])
})

t.test('the head of a first pull request', async (t) => {
  const { dir, tip, flushed } = await setUp(t)
  t.equal(await updateRef(dir, 'refs/pull/1/head', { from: null, to: tip }), 'moved')
  flushes(t, flushed, dir, ['refs/pull/1', 'refs/pull', 'refs'])
})

t.test('objects in a directory that another object has just created', async (t) => {
  const { dir, flushed } = await setUp(t)
  // Ids of blobs that begin with the same two digits.
  const first = new Map<string, string>()
  let pair: [string, string] | undefined
  for (let i = 0; pair === undefined; i++) {
    const text = `${i}`
    const fan = hash('sha1', `blob ${text.length}\0${text}`, 'hex').slice(0, 2)
    const before = first.get(fan)
    if (before === undefined) first.set(fan, text)
    else pair = [before, text]
  }
  const stored = pair.map(async (text) => {
    await storeObject(dir, 'blob', Buffer.from(text))
    return flushed.includes(join(dir, 'objects'))
  })
  t.same(await Promise.all(stored), [true, true], 'each waits until the name of the directory is on disk')
})

t.test('staged objects that are kept; flushed files are not flushed again', async (t) => {
  const { dir, flushed } = await setUp(t)
  let sha = ''
  await withStaging(dir, async ({ writeCommit, keepAllBut }) => {
    sha = await writeCommit(scaffoldCommit(EMPTY_TREE, undefined))
    await keepAllBut(new Set())
  })
  const fan = `objects/${sha.slice(0, 2)}`
  flushes(t, flushed, dir, [fan, 'objects'])
  t.equal(await makeDirectory(join(dir, fan)), false)
})

t.test('attached files in a directory that another one has just created', async (t) => {
  const directory = t.testdir()
  const files = await openAttachmentFiles(directory)
  const flushed = flushedPaths(t)
  const kept = Array.from({ length: 16 }, async () => {
    const uuid = `aa${randomUUID().slice(2)}`
    await files.receive(uuid, chunks('x'), { maxSize: 10, digest: false })
    await files.keep(uuid)
    return flushed.includes(directory)
  })
  t.notOk((await Promise.all(kept)).includes(false))
})

t.test('the first large file of a repository', async (t) => {
  const { parent, dir, flushed } = await setUp(t)
  const text = 'large'
  const object = { oid: hash('sha256', text, 'hex'), size: text.length }
  await receiveLfsFile(dir, object, chunks(text))
  flushes(t, flushed, dir, ['', 'lfs', 'lfs/objects', `lfs/objects/${object.oid.slice(0, 2)}`])
  const fork = join(parent, '2.git')
  await mkdir(fork)
  await shareLfsFiles(dir, fork, [object])
  flushes(t, flushed, fork, ['', 'lfs', 'lfs/objects', `lfs/objects/${object.oid.slice(0, 2)}`])
})
