/** Requests that wait for the ref lock: permissions and rules of the moment when they get it count. */
import t from 'tap'
import { refLockKey, withRefLock } from '../../../src/commands/git/ref-lock.ts'
import { updateRef } from '../../../src/git/refs/refs.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { until } from '../../until.ts'
import { type PullRepository, startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, repository } = await startPulls(t)

/** Returns the status of carol's request that waits for the ref lock while something happens. */
async function waiting(
  { repoId }: { repoId: number },
  ask: () => Promise<{ status: number }>,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  const { runExclusive } = server.services
  const turn = withRefLock(server.services, repoId, () => held)
  let waits = false
  server.services.runExclusive = (key, work, ...more) => {
    waits ||= key === refLockKey(repoId)
    return runExclusive(key, work, ...more)
  }
  const asked = ask()
  try {
    await until('the request waits for the lock', async () => waits)
    await meanwhile()
  } finally {
    server.services.runExclusive = runExclusive
    leave()
  }
  await turn
  return (await asked).status
}

const branchProtection = (rule: string) => async (made: PullRepository) => {
  await made.protect(rule, { enable_push: false })
}
const tagProtection = async (made: PullRepository) => {
  const option = { name_pattern: '*', whitelist_usernames: ['alice'] }
  const { status, text } = await made.call('alice', 'POST', 'tag_protections', option)
  if (status !== 201) throw new Error(text)
}

interface Move {
  method: string
  path: string
  body?: object
  /** The protection that is added while the request waits, and the expected answer. */
  protect: (made: PullRepository) => Promise<unknown>
  refused: number
}

const MOVES: Record<string, Move> = {
  'a branch is made': {
    ...{ method: 'POST', path: 'branches', body: { new_branch_name: 'made' } },
    ...{ protect: branchProtection('made'), refused: 403 },
  },
  'a branch is deleted': {
    ...{ method: 'DELETE', path: 'branches/topic', protect: branchProtection('topic'), refused: 403 },
  },
  'a branch is renamed': {
    ...{ method: 'PATCH', path: 'branches/topic', body: { name: 'renamed' } },
    ...{ protect: branchProtection('renamed'), refused: 403 },
  },
  'a file is committed': {
    ...{ method: 'POST', path: 'contents/new', body: { content: 'eA==', branch: 'topic' } },
    ...{ protect: branchProtection('topic'), refused: 403 },
  },
  'a tag is made': {
    ...{ method: 'POST', path: 'tags', body: { tag_name: 'made', message: 'x' } },
    ...{ protect: tagProtection, refused: 422 },
  },
  'a tag is deleted': { method: 'DELETE', path: 'tags/v1', protect: tagProtection, refused: 422 },
  'a release is made with its tag': {
    ...{ method: 'POST', path: 'releases', body: { tag_name: 'made' } },
    ...{ protect: tagProtection, refused: 422 },
  },
}

for (const [i, [what, { method, path, body, protect, refused }]] of Object.entries(MOVES).entries()) {
  t.test(`while ${what}, changes before it gets the lock count`, async (t) => {
    const made = await repository(t, `moves-${i}`, { private: true })
    await made.branch('topic', { topic: 'x' })
    await made.call('alice', 'POST', 'tags', { tag_name: 'v1' })
    const { name } = made
    const access = (permission: 'read' | 'write') =>
      alice.repos.repoAddCollaborator('alice', name, 'carol', { permission })
    const refs = async () =>
      JSON.stringify([(await made.call('alice', 'GET', 'git/refs')).body, await made.tip('topic')])
    const before = await refs()
    const cases = {
      'the loss of the right to write': { status: 403, change: () => access('read') },
      'the end of the access': {
        status: 404,
        change: () => alice.repos.repoDeleteCollaborator('alice', name, 'carol'),
      },
      archiving: { status: 423, change: () => alice.repos.repoEdit('alice', name, { archived: true }) },
      'a protection': { status: refused, change: () => protect(made) },
    }
    for (const [title, { status, change }] of Object.entries(cases)) {
      await alice.repos.repoEdit('alice', name, { archived: false })
      await access('write')
      t.equal(await waiting(made, () => made.call('carol', method, path, body), change), status, title)
      t.equal(await refs(), before, `${title}: no ref has moved`)
      t.same((await made.call('alice', 'GET', 'releases')).body, [], title)
    }
  })
}

const AT: Record<string, { path: string; body: (ref: string) => object }> = {
  branch: { path: 'branches', body: (ref) => ({ new_branch_name: 'again', old_ref_name: ref }) },
  tag: { path: 'tags', body: (ref) => ({ tag_name: 'again', target: ref }) },
  'tag with a message': { path: 'tags', body: (ref) => ({ tag_name: 'again', target: ref, message: 'x' }) },
  release: { path: 'releases', body: (ref) => ({ tag_name: 'again', target_commitish: ref }) },
}

for (const [i, [what, { path, body }]] of Object.entries(AT).entries()) {
  t.test(
    `a commit that became unreachable during the wait for the lock is not revived by a ${what}`,
    async (t) => {
      const made = await repository(t, `unreached-${i}`, { writers: ['carol'] })
      const dir = gitDirOf(server.services, made.repoId)
      for (const name of ['by-id', 'by-name']) {
        await made.branch(name, { secret: name })
        const tip = (await made.tip(name)) ?? ''
        const status = await waiting(
          made,
          () => made.call('carol', 'POST', path, body(name === 'by-id' ? tip : name)),
          // As a push does that has the lock before.
          () => updateRef(dir, `refs/heads/${name}`, { from: tip, to: null }),
        )
        t.equal(status, 404)
        t.notMatch(JSON.stringify((await made.call('alice', 'GET', 'git/refs')).body), 'again')
      }
      t.same((await made.call('alice', 'GET', 'releases')).body, [])
    },
  )
}

t.test('a head branch that is protected while its deletion waits is kept', async (t) => {
  const made = await repository(t, 'merged', { writers: ['carol'] })
  await made.branch('topic', { topic: 'x' })
  const index = await made.open('topic')
  const { runExclusive } = server.services
  let isMerged = false
  // The merge itself takes the first ref lock.
  server.services.runExclusive = async (key, work, ...more) => {
    if (key !== refLockKey(made.repoId)) return runExclusive(key, work, ...more)
    if (isMerged) await made.protect('topic', { enable_push: false })
    isMerged = true
    return runExclusive(key, work, ...more)
  }
  t.teardown(() => {
    server.services.runExclusive = runExclusive
  })
  const answer = await made.merge(index, { delete_branch_after_merge: true }, 'carol')
  t.equal(answer.status, 403)
  t.match(await made.get(index), { merged: true })
  t.ok(await made.tip('topic'))
})
