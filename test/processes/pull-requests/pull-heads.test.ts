// In a process of its own: its own git is in PATH before the modules are loaded.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { until } from '../../until.ts'

// A git that records each process with its repository, in place before the server looks for git.
const bin = await mkdtemp(join(tmpdir(), 'mergelog-git-'))
t.teardown(() => rm(bin, { recursive: true, force: true }))
const { stdout: gitPath } = await promisify(execFile)('/bin/sh', ['-c', 'command -v git'])
const diary = join(bin, 'diary')
await writeFile(diary, '')
await writeFile(join(bin, 'git'), `#!/bin/sh\necho "$GIT_DIR $*" >> ${diary}\nexec ${gitPath.trim()} "$@"\n`)
await chmod(join(bin, 'git'), 0o755)
process.env.PATH = `${bin}:${process.env.PATH}`
const { eventsIn, startPulls } = await import('../../commands/pull-requests/pull-repository.ts')
const { pullHeads } = await import('../../../src/processes/pull-requests/pull-heads.ts')
const { createLateMerges } = await import('../../../src/processes/pull-requests/late-merges.ts')
const { contextOf } = await import('../../../src/processes/process-manager.ts')
const { branchId } = await import('../../../src/projections/models/branches/branches.fold.ts')
const { gitStream, pullStream } = await import('../../../src/events/streams.ts')

const { server, alice, bob, repository } = await startPulls(t)
const { events, readStore, views } = server.services
const { check } = createLateMerges(server.services, new AbortController().signal)

/** The arguments of the git processes that worked in a repository since `from` bytes of the record. */
async function processesOf(dir: string, from = 0): Promise<string[]> {
  const lines = (await readFile(diary, 'utf8')).slice(from).split('\n')
  return lines.filter((line) => line.startsWith(`${dir} `)).map((line) => line.slice(dir.length + 1))
}

/** Whether the process has handled the last move of a branch, and the last change of a pull request. */
async function hasPassed(position: number): Promise<boolean> {
  return ((await readStore.checkpoint('process_pull_heads'))?.position ?? 0) >= position
}

async function lastMove(repoId: number) {
  const last = (await eventsIn(server, gitStream(repoId))).at(-1)
  if (last?.type !== 'RefsUpdated') throw new Error('no branch has moved')
  return last
}

/** Resolves when all moves of a repository's branches are handled. */
async function quiet(repoId: number): Promise<void> {
  const { position } = await lastMove(repoId)
  await until('the process has passed the last move', () => hasPassed(position))
  const last = await events.lastPosition()
  await until('queries see what it did', () => server.services.projector.waitFor(last, 5000))
}

function written(event: DomainEvent) {
  const at = new Date().toISOString()
  const metadata = { actor: null, at, correlationId: 'test', causationId: 'test', schema: 1 }
  return { id: randomUUID(), type: event.type, data: event.data, metadata }
}

t.test('mergeable state: follows the base and the head, and deleted and recreated branches', async (t) => {
  const { branch, open, get, repoId, push, reopen } = await repository(t, 'moves')
  const head = await branch('topic', { 'a.txt': 'a\n' })
  await branch('dev', { 'd.txt': 'd\n' })
  await open('topic')
  const index = await open('topic', { base: 'dev' })
  t.match(await get(1), { mergeable: true })
  await branch('main', { 'a.txt': 'of main\n' }, 'main')
  await quiet(repoId)
  t.match(await get(1), { mergeable: false, head: { sha: head } }, 'a conflict')
  t.match(await get(index), { mergeable: true }, 'another base is another matter')

  const solved = await branch('topic', { 'a.txt': 'of main\n' }, 'topic')
  t.match(await get(1), { head: { sha: solved }, changed_files: 1 }, 'at once')
  await quiet(repoId)
  t.match(await get(1), { mergeable: true, head: { sha: solved } }, 'solved')

  await push(':topic')
  t.match(await get(1), { state: 'closed', head: { sha: solved } }, 'the head is gone')
  await reopen(1)
  await until('nothing can be merged', async () => (await get(1)).mergeable === false)
  await push(`${solved}:refs/heads/topic`)
  await quiet(repoId)
  t.match(await get(1), { mergeable: true }, 'and is back')

  await push(':dev')
  await reopen(index)
  const later = await branch('topic', { 'l.txt': 'l\n' }, 'topic')
  await quiet(repoId)
  t.match(await get(index), { mergeable: false, head: { sha: later } }, 'the base is gone, the head moves on')
  await push('dev')
  await quiet(repoId)
  t.match(await get(index), { mergeable: true, head: { sha: later } }, 'the base is back')
})

t.test('a pull request on top of another shows its own changes once that one is merged', async (t) => {
  const { branch, open, get, merge, work, repoId, typesOf } = await repository(t, 'stacked')
  const lower = await branch('lower', { 'a.txt': 'a\n' })
  await open('lower')
  const upper = await branch('upper', { 'b.txt': 'b\n' }, 'lower')
  const index = await open('upper')
  await branch('apart', { 'c.txt': 'c\n' })
  const other = await open('apart')
  const root = await work.git('rev-parse', 'main')
  t.match(await get(index), { merge_base: root, changed_files: 2 })
  t.equal((await merge(1)).status, 200)
  await quiet(repoId)
  t.match(await get(index), { merge_base: lower, changed_files: 1, head: { sha: upper } })
  t.match(await get(other), { merge_base: root, changed_files: 1 })
  t.notOk((await typesOf(other)).includes('MergeBaseMoved'))

  await work.git('push', '-q', '-f', 'origin', `${root}:main`)
  await quiet(repoId)
  t.match(await get(index), { merge_base: root, changed_files: 2 }, 'the base is rewritten')
})

t.test(
  'the merge base moves also when the merge was tried with the new tip of the base before',
  async (t) => {
    const { branch, open, get, push, repoId } = await repository(t, 'tried')
    const lower = await branch('lower', { 'a.txt': 'a\n' })
    const upper = await branch('upper', { 'b.txt': 'b\n' }, 'lower')
    const index = await open('upper')
    await quiet(repoId)
    // As the reaction to an earlier push does, when the branch has moved on meanwhile.
    const data = { repoId, index, head: upper, base: lower, mergeable: true, conflicts: [] }
    await events.append(pullStream(repoId, index), [written({ type: 'MergeabilityChecked', data })], 'any')
    await server.services.projector.waitFor(await events.lastPosition(), 5000)
    await push('lower:main')
    await quiet(repoId)
    t.match(await get(index), { merge_base: lower, changed_files: 1 })
  },
)

t.test('mergeable state: unrelated histories cannot be merged', async (t) => {
  const { branch, open, get, work, repoId } = await repository(t, 'stranger')
  await branch('topic', { a: 'a' })
  await open('topic')
  await work.git('checkout', '-q', '--orphan', 'stranger')
  const sha = await work.commit('Another first commit', { b: 'b' })
  await work.git('push', '-q', '-f', 'origin', 'stranger:topic')
  await quiet(repoId)
  t.match(await get(1), { mergeable: false, head: { sha } })
})

t.test(
  'mergeable state: a push to a fork moves the head, whose commits the base repository then has',
  async (t) => {
    const { branch, open, get, call, repoId, name, fork, tip } = await repository(t, 'base')
    const { repoId: forkId, branch: pushFork } = await fork('bob')
    await pushFork('topic', { 'a.txt': 'a\n' })
    await open('bob:topic', {}, 'bob')

    const moved = await pushFork('topic', { 'b.txt': 'b\n' }, 'topic')
    t.match(
      await get(1),
      { head: { sha: moved, repo_id: forkId }, changed_files: 2, additions: 2 },
      'at once',
    )
    t.equal(await tip('refs/pull/1/head'), moved)
    const diff = await call(null, 'GET', 'pulls/1.diff')
    t.match(diff, { status: 200, text: /\+\+\+ b\/b\.txt/ })
    t.match((await call(null, 'GET', 'pulls/1/files')).text, /b\.txt/)

    await branch('main', { 'b.txt': 'of main\n' }, 'main')
    await quiet(repoId)
    t.match(await get(1), { mergeable: false }, 'a move of the base is checked')
    await pushFork('topic', { 'b.txt': 'of main\n' }, 'topic')
    await quiet(forkId)
    t.match(await get(1), { mergeable: true }, 'and so is one of the head')

    const { head } = await get(1)
    await bob.repos.repoDelete('bob', name)
    await until('it is closed', async () => (await get(1)).state === 'closed')
    t.match((await get(1)).head, { sha: head?.sha, repo: null })
    t.match(await call(null, 'GET', 'pulls/1.diff'), { status: 200, text: /b\.txt/ }, 'it is still shown')
  },
)

t.test(
  'mergeable state: a closed pull request keeps its head, and catches up when it is reopened',
  async (t) => {
    const { branch, open, get, repoId, typesOf, close, reopen, tip } = await repository(t, 'reopened')
    const head = await branch('topic', { 'a.txt': 'a\n' })
    await open('topic')
    await close(1)
    const count = (await typesOf(1)).length
    const moved = await branch('topic', { 'b.txt': 'b\n' }, 'topic')
    const base = await branch('main', { 'b.txt': 'of main\n' }, 'main')
    await quiet(repoId)
    t.match(await get(1), { state: 'closed', head: { sha: head } })
    t.equal((await typesOf(1)).length, count, 'nothing is recorded of it')
    await reopen(1)
    await until('it has caught up', async () => (await get(1)).mergeable === false)
    t.match(await get(1), { head: { sha: moved }, base: { sha: base }, changed_files: 2 })
    t.equal(await tip('refs/pull/1/head'), moved)
  },
)

t.test('mergeable state: a check against the old base does not count for a new one', async (t) => {
  const { branch, open, get, repoId, edit, eventsOf } = await repository(t, 'retargeted')
  const dev = await branch('dev', { 'd.txt': 'd\n' })
  await branch('topic', { 'a.txt': 'a\n' })
  await open('topic')
  const main = await branch('main', { 'a.txt': 'of main\n' }, 'main')
  const move = await lastMove(repoId)
  let retargeted = false
  const branches = {
    ...views.branches,
    get: async (id: string) => {
      const found = await views.branches.get(id)
      if (id === branchId(repoId, 'main') && !retargeted) {
        retargeted = true
        t.equal((await edit(1, { base: 'dev' })).status, 201)
      }
      return found
    },
  }
  await quiet(repoId)
  t.match(await get(1), { mergeable: false })
  const manager = pullHeads({ ...server.services, views: { ...views, branches } }, check)
  // A check that has just begun, as after another move of the base.
  const another = { ...move, id: randomUUID() }
  await manager.react(another, contextOf(another))
  t.ok(retargeted)
  await server.services.projector.waitFor(await events.lastPosition(), 5000)
  t.match(await get(1), { mergeable: true, base: { ref: 'dev', sha: dev } })
  t.match((await eventsOf(1)).at(-1), { type: 'MergeabilityChecked', data: { base: dev, mergeable: true } })
  t.not(main, dev)
})

t.test(
  'mergeable state: a push just before the pull request was opened, or retargeted, counts',
  async (t) => {
    const { branch, open, get, repoId, work, eventsOf, tip } = await repository(t, 'late')
    const old = await branch('topic', { 'a.txt': 'a\n' })
    const base = await work.git('rev-parse', 'main')
    const pushed = await branch('topic', { 'b.txt': 'b\n' }, 'topic')
    await branch('other', { 'o.txt': 'o\n' })
    await open('other')
    const opened = (await eventsOf(1))[0]
    if (opened?.type !== 'PullRequestOpened') throw new Error('not opened')
    const head = { repoId, branch: 'topic', sha: old }
    const data = {
      ...opened.data,
      index: 7,
      id: opened.data.id + 1000,
      head,
      base: { ...opened.data.base, sha: base },
    }
    await events.append(pullStream(repoId, 7), [written({ type: 'PullRequestOpened', data })], 'no-stream')
    await until('it has caught up', async () => {
      const [pull] = await views.pulls.find({ repoId, index: 7 })
      return pull?.head.sha === pushed
    })
    t.equal(await tip('refs/pull/7/head'), pushed)

    const first = await branch('dev', { 'd.txt': 'd\n' })
    const conflicting = await branch('dev', { 'o.txt': 'of dev\n' }, 'dev')
    const target = {
      repoId,
      index: 1,
      from: opened.data.base,
      base: { repoId, branch: 'dev', sha: first },
      mergeBase: base,
      diff: opened.data.diff,
    }
    await events.append(
      pullStream(repoId, 1),
      [written({ type: 'TargetBranchChanged', data: target })],
      'any',
    )
    await until('the conflict is known', async () => (await get(1)).mergeable === false)
    t.match(await get(1), { base: { sha: conflicting } })
  },
)

t.test('mergeable state: an event that is delivered twice is recorded once', async (t) => {
  const { branch, open, repoId, typesOf, dir } = await repository(t, 'twice')
  await branch('topic', { 'a.txt': 'a\n' })
  await open('topic')
  await branch('main', { 'm.txt': 'm\n' }, 'main')
  const move = await lastMove(repoId)
  await quiet(repoId)
  const before = await typesOf(1)
  const { length } = await readFile(diary, 'utf8')
  const manager = pullHeads(server.services, check)
  await Promise.all([1, 2, 3].map(() => manager.react(move, contextOf(move))))
  t.strictSame(await typesOf(1), before)
  const tried = (await processesOf(dir, length)).filter((args) => args.startsWith('merge-tree'))
  t.strictSame(tried, [], 'a merge that is known to be clean is not tried again')
})

const PULLS = 200

t.test(
  `mergeable state: a push to the base of ${PULLS} is handled by few processes while requests are answered`,
  async (t) => {
    const { work, repoId, dir, branch, open, name, eventsOf } = await repository(t, 'crowd')
    const base = await branch('main', { 'shared.txt': 'first\n' }, 'main')
    const conflicts = (i: number) => i % 5 === 0
    const commits = Array.from({ length: PULLS }, (_, i) => {
      const file = conflicts(i) ? 'shared.txt' : `file${i}.txt`
      const author = 'committer Tester <tester@example.org> 1700000000 +0000'
      const text = `of ${i}\n`
      return `commit refs/heads/topic${i}\n${author}\ndata 5\ntopic\nfrom ${base}\nM 100644 inline ${file}\ndata ${text.length}\n${text}\n`
    })
    await writeFile(join(work.dir, '.git', 'commits'), commits.join(''))
    await promisify(execFile)('/bin/sh', ['-c', 'git fast-import --quiet < .git/commits'], { cwd: work.dir })
    await work.git('push', '-q', '--all', 'origin')
    await branch('seed', { seed: 'x' })
    await open('seed')
    const [opened] = await eventsOf(1)
    if (opened?.type !== 'PullRequestOpened') throw new Error('not opened')
    const tips = new Map(
      (await work.git('for-each-ref', '--format=%(refname:short) %(objectname)', 'refs/heads'))
        .split('\n')
        .map((line) => {
          const [ref = '', sha = ''] = line.split(' ')
          return [ref, sha]
        }),
    )
    await Promise.all(
      Array.from({ length: PULLS }, async (_, i) => {
        const index = i + 2
        const head = { repoId, branch: `topic${i}`, sha: tips.get(`topic${i}`) ?? '' }
        const data = { ...opened.data, index, id: 100_000 + index, title: `From ${i}`, head }
        await events.append(
          pullStream(repoId, index),
          [written({ type: 'PullRequestOpened', data })],
          'no-stream',
        )
      }),
    )
    await until('all are open', async () => hasPassed(await events.lastPosition()))
    t.equal(await views.pulls.count({ repoId, mergeable: true }), PULLS + 1)

    const { length } = await readFile(diary, 'utf8')
    await branch('main', { 'shared.txt': 'second\n' }, 'main')
    const { position } = await lastMove(repoId)
    let answered = 0
    let during = 0
    while (!(await hasPassed(position))) {
      const { status } = await alice.repos.repoListPullRequests('alice', name, { limit: 10 })
      t.equal(status, 200)
      answered += 1
      if (!(await hasPassed(position))) during += 1
    }
    t.ok(during > 0, `${during} of ${answered} requests were answered while the work was under way`)
    const wrong = async () =>
      (await views.pulls.find({ repoId })).filter(
        ({ index, mergeable, conflicts: files, base: { sha } }) =>
          sha === base ||
          mergeable === (index > 1 && conflicts(index - 2)) ||
          mergeable !== (files.length === 0),
      )
    // On a busy machine the process has left the last ones to its worker.
    await until('all are tried', async () => (await wrong()).length === 0)
    const processes = await processesOf(dir, length)
    // A busy machine does less in a process's time, so it needs more processes; it never uses one for each.
    t.ok(processes.length < PULLS / 5, `${processes.length} processes in all:\n${processes.join('\n')}`)
  },
)
