import t from 'tap'
import type { Test } from '../../git-client.ts'
import { hostedWork } from '../../hosted-work.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, bob, call, repository } = await startPulls(t)

/** A repository, and a fork of bob's with a pull request from `idea`. */
async function withFork(t: Test, name: string) {
  const made = await repository(t, name, { writers: ['carol'] })
  const own = await made.fork('bob')
  const before = await own.branch('idea', { 'of-bob': 'x\n' })
  await made.open('bob:idea', {}, 'bob')
  return { ...made, own, before }
}

/** A work tree of bob's fork by another user, with a commit on `idea` that is not pushed yet. */
async function contributor(test: Test, login: string, name: string) {
  const fullName = `bob/${name}`
  const { id: repoId = 0 } = (await bob.repos.repoGet('bob', name)).data
  const { work } = await hostedWork(test, server, { login, repoId, fullName })
  await work.git('checkout', '-q', 'idea')
  const tip = await work.commit(`Commit of ${login}`, { [`by-${login}`]: 'x\n' })
  return { work, tip }
}

t.test('pulls.edit.7: with the flag writers of the base push to the head branch of the fork', async (t) => {
  const { edit, get, before } = await withFork(t, 'app')
  const { work, tip } = await contributor(t, 'carol', 'app')
  await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/, 'not without it')
  await edit(1, { allow_maintainer_edit: true }, 'bob')
  await work.git('push', '-q', 'origin', 'idea')
  t.match(await get(1), { head: { sha: tip }, changed_files: 2 }, 'the pull request has the commit at once')

  await work.git('reset', '-q', '--hard', before)
  await work.git('push', '-q', '--force', 'origin', 'idea')
  t.equal((await get(1)).head?.sha, before, 'it is a branch like any other')

  await edit(1, { allow_maintainer_edit: false }, 'bob')
  await work.commit('Late', { late: 'x\n' })
  await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/, 'not after it was taken back')
})

t.test(
  'default_allow_maintainer_edit: a new pull request has the flag, if its poster may give it',
  async (t) => {
    const made = await repository(t, 'inviting', { writers: ['carol'] })
    await alice.repos.repoEdit('alice', 'inviting', { default_allow_maintainer_edit: true })
    const own = await made.fork('bob')
    await own.branch('idea', { 'of-bob': 'x\n' })
    await made.open('bob:idea', {}, 'bob')
    t.equal((await made.get(1)).allow_maintainer_edit, true)
    const { work, tip } = await contributor(t, 'carol', 'inviting')
    await work.git('push', '-q', 'origin', 'idea')
    t.equal((await made.get(1)).head?.sha, tip)
    await own.branch('other', { other: 'x\n' })
    await made.open('bob:other', {}, 'carol')
    t.equal((await made.get(2)).allow_maintainer_edit, false, 'carol does not write to the fork')
  },
)

t.test('pulls.edit.7: nothing else in the fork can be pushed, and the branch not deleted', async (t) => {
  const { edit, own } = await withFork(t, 'limits')
  await own.push('idea:other')
  await edit(1, { allow_maintainer_edit: true }, 'bob')
  const { work } = await contributor(t, 'carol', 'limits')
  const before = await work.git('ls-remote', 'origin')
  const refused = [
    'HEAD:main',
    'HEAD:other',
    'HEAD:new',
    'HEAD:Idea',
    'HEAD:refs/tags/xidea',
    ':idea',
    ':other',
  ]
  for (const refspec of refused) {
    await t.rejects(work.git('push', '-q', '--force', 'origin', refspec), /you may not push to it/, refspec)
  }
  await t.rejects(work.git('push', '-q', '--atomic', 'origin', 'HEAD:idea', 'HEAD:main'))
  t.equal(await work.git('ls-remote', 'origin'), before)
  const status = async (login: string, method: string, path: string, body?: object) =>
    (await call(login, method, `repos/bob/limits${path}`, body)).status
  t.equal(await status('carol', 'PATCH', '', { description: 'x' }), 403, 'nor anything else be changed')
  t.equal(await status('carol', 'DELETE', '/branches/idea'), 403)
})

t.test(
  'pulls.edit.7: only writers of the base may push, and the protected branches remain protected',
  async (t) => {
    const { edit } = await withFork(t, 'who')
    await edit(1, { allow_maintainer_edit: true }, 'bob')
    const asDave = await contributor(t, 'dave', 'who')
    await t.rejects(asDave.work.git('push', '-q', 'origin', 'idea'), /403/, 'a reader of both')
    await bob.repos.repoCreateBranchProtection('bob', 'who', { rule_name: 'idea', enable_push: false })
    const asCarol = await contributor(t, 'carol', 'who')
    await t.rejects(asCarol.work.git('push', '-q', 'origin', 'idea'), /protected/)
    await bob.repos.repoDeleteBranchProtection('bob', 'who', 'idea')
    await asCarol.work.git('push', '-q', 'origin', 'idea')
    await alice.repos.repoDeleteCollaborator('alice', 'who', 'carol')
    await asCarol.work.commit('More', { more: 'x\n' })
    await t.rejects(asCarol.work.git('push', '-q', 'origin', 'idea'), /403/, 'a writer no more')
  },
)

t.test(
  'pulls.edit.7: a closed pull request allows no pushes, and a private fork stays private',
  async (t) => {
    const { edit, close, reopen } = await withFork(t, 'closed')
    await edit(1, { allow_maintainer_edit: true }, 'bob')
    const { work } = await contributor(t, 'carol', 'closed')
    await close(1)
    await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/)
    await reopen(1)
    await bob.repos.repoEdit('bob', 'closed', { private: true })
    await t.rejects(work.git('push', '-q', 'origin', 'idea'), /not found/)
    await t.rejects(work.git('fetch', '-q', server.gitUrl('carol', 'bob/closed')), /not found/)
    await bob.repos.repoEdit('bob', 'closed', { private: false })
    await work.git('push', '-q', 'origin', 'idea')
  },
)

/** A pull request of dave's from bob's fork, with the flag: dave was a collaborator of the fork when he set it. */
async function ofCollaborator(t: Test, name: string) {
  const made = await repository(t, name, { writers: ['carol'] })
  const own = await made.fork('bob')
  await own.branch('idea', { 'of-bob': 'x\n' })
  const collaborate = (permission: 'read' | 'write') =>
    bob.repos.repoAddCollaborator('bob', name, 'dave', { permission })
  await collaborate('write')
  await made.open('bob:idea', {}, 'dave')
  await made.edit(1, { allow_maintainer_edit: true }, 'dave')
  return { ...made, own, collaborate }
}

t.test(
  'allow_maintainer_edit gives only what its poster may do now: it ends when the poster can no longer write to the head repository',
  async (t) => {
    const { collaborate, call: at, branch } = await ofCollaborator(t, 'given')
    const { work } = await contributor(t, 'carol', 'given')
    await work.git('push', '-q', 'origin', 'idea')
    await branch('main', { m: 'm' }, 'main')
    await collaborate('read')
    await work.commit('Late', { late: 'x\n' })
    const before = await work.git('ls-remote', 'origin')
    await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/)
    t.equal((await at('carol', 'POST', 'pulls/1/update')).status, 403, 'nor by an update')
    await bob.repos.repoDeleteCollaborator('bob', 'given', 'dave')
    await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/)
    t.equal(await work.git('ls-remote', 'origin'), before)
    await collaborate('write')
    await work.git('push', '-q', 'origin', 'idea')
  },
)

t.test("the head's owner can always take allow_maintainer_edit back", async (t) => {
  const { edit, changes } = await ofCollaborator(t, 'taken')
  const { work } = await contributor(t, 'carol', 'taken')
  const before = (await changes(1)).length
  t.equal((await edit(1, { allow_maintainer_edit: true }, 'bob')).status, 403, 'it is not his to give')
  t.equal((await edit(1, { allow_maintainer_edit: false, title: 'His' }, 'bob')).status, 403)
  t.equal((await edit(1, { title: 'His' }, 'bob')).status, 403, 'nor anything else to change')
  t.equal(
    (await edit(1, { allow_maintainer_edit: false }, 'carol')).status,
    403,
    'nor for a writer of the base',
  )
  t.equal((await changes(1)).length, before)
  const taken = await edit(1, { allow_maintainer_edit: false }, 'bob')
  t.match(taken, { status: 201, body: { allow_maintainer_edit: false } })
  await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/)
})

t.test(
  "the head's owner can always clear allow_maintainer_edit, even without access to the base",
  async (t) => {
    const made = await repository(t, 'closed-base', { writers: ['carol', 'dave'], private: true })
    await made.writer('bob', 'read')
    const own = await made.fork('bob')
    await own.branch('idea', { 'of-bob': 'x\n' })
    await bob.repos.repoAddCollaborator('bob', 'closed-base', 'dave', { permission: 'write' })
    await bob.repos.repoAddCollaborator('bob', 'closed-base', 'carol', { permission: 'read' })
    await made.open('bob:idea', {}, 'dave')
    await made.edit(1, { allow_maintainer_edit: true }, 'dave')
    await alice.repos.repoDeleteCollaborator('alice', 'closed-base', 'bob')
    const { work } = await contributor(t, 'carol', 'closed-base')
    await work.git('push', '-q', 'origin', 'idea')

    const patch = (option: object, login: string | null = 'bob', index = 1) =>
      made.call(login, 'PATCH', `pulls/${index}`, option)
    await server.as('stranger')
    const before = await server.services.events.lastPosition()
    t.equal((await made.call('bob', 'GET', 'pulls/1')).status, 404)
    for (const option of [
      { allow_maintainer_edit: true },
      { title: 'His' },
      { allow_maintainer_edit: false, title: 'His' },
      { allow_maintainer_edit: false, state: 'closed' },
    ]) {
      t.equal((await patch(option)).status, 404, JSON.stringify(option))
    }
    const off = { allow_maintainer_edit: false }
    t.equal((await patch(off, 'bob', 2)).status, 404)
    t.equal((await patch(off, null)).status, 404)
    t.equal((await patch(off, 'stranger')).status, 404, 'nobody else')
    t.equal(await server.services.events.lastPosition(), before, 'nothing has changed')

    const taken = await patch(off)
    t.match(taken, { status: 204, text: '' }, 'and nothing of the base is shown')
    t.match(await made.get(1), { allow_maintainer_edit: false, state: 'open' })
    await work.commit('Late', { late: 'x\n' })
    await t.rejects(work.git('push', '-q', 'origin', 'idea'), /403/)
  },
)
