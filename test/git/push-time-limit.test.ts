/** A push that exceeds `GIT_TIMEOUT_MS` is ended: it moves no ref, leaves no file, and its client gets the reason. */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { refLockKey } from '../../src/commands/git/ref-lock.ts'
import { standardShare } from '../../src/git/process/limits.ts'
import { listRefs, resolveRef } from '../../src/git/refs/refs.ts'
import { createRepository } from '../../src/git/repository/repository.ts'
import { gitDirOf } from '../../src/services/services.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { commit, initWork, pushBody, tryGit, userGit } from './client.ts'
import { gitProcesses, startGitServer } from './git-server.ts'

const MAIN = 'refs/heads/main'

/** Returns the unaccepted objects that git, or an earlier push, has left. */
const quarantines = async (dir: string) =>
  (await readdir(`${dir}/objects`)).filter((name) => name.startsWith('tmp_objdir'))

t.test(
  'a push past its time limit: the quarantine is removed, no ref moves, the answer is clear',
  async (t) => {
    const root = await mkdtemp(join(tmpdir(), 'mergelog-git-'))
    const dir = `${root}/one.git`
    let isHeld = false
    let wasQuarantined = false
    const share = { ...standardShare }
    const server = await startGitServer(root, {
      share,
      /** git has the objects, and waits for this answer, which comes after git was ended. */
      async checkAgain() {
        if (isHeld) {
          wasQuarantined = (await quarantines(dir)).length > 0
          await until('git is ended', async () => (await gitProcesses(dir)).length === 0)
        }
        return new Map()
      },
    })
    t.teardown(async () => {
      await server.close()
      await rm(root, { recursive: true, force: true })
    })
    await createRepository(dir, { defaultBranch: 'main' })
    const work = `${root}/work`
    await initWork(work)
    await userGit(work, ['remote', 'add', 'origin', `${server.url}/one.git`])
    const a = await commit(work, 'a', { f: '1' }, [])
    const b = await commit(work, 'b', { f: '2' }, [a])
    const push = (sha: string) =>
      tryGit(work, ['push', 'origin', `${sha}:${MAIN}`, `${sha}:refs/heads/other`])
    t.match(await push(a), { code: 0 })
    const before = await listRefs(dir)
    server.recorded.splice(0)

    isHeld = true
    // On a slow machine git may be ended before it has the objects. Then it gets more time.
    for (let workMs = 1000; !wasQuarantined; workMs *= 2) {
      share.workMs = workMs
      // The rest of an earlier killed push.
      await mkdir(`${dir}/objects/tmp_objdir-incoming-older`, { recursive: true })
      const refused = await push(b)
      t.equal(refused.code, 1)
      const seconds = Math.ceil(workMs / 1000)
      t.match(refused.stderr, new RegExp(`main \\(the push took longer than ${seconds} s\\)`))
      t.match(refused.stderr, new RegExp(`other \\(the push took longer than ${seconds} s\\)`))
      await until('git and its helpers are gone', async () => (await gitProcesses(dir)).length === 0)
      t.same(await quarantines(dir), [])
      t.same(await listRefs(dir), before)
      t.same(server.recorded, [])
      t.same(await readdir(`${root}/pending`), [], 'nothing is left to recover')
      t.same(share.slots.counts(), { running: 0, waiting: 0 })
    }
    t.match(await tryGit(dir, ['cat-file', '-e', b]), { code: 1 }, 'no object of it came in')

    isHeld = false
    share.workMs = standardShare.workMs
    t.match(await push(b), { code: 0 }, 'the same push succeeds when it has the time')
    t.equal(await resolveRef(dir, MAIN), b)
    t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
  },
)

t.test(
  'GIT_TIMEOUT_MS: the HTTP answer of a late push names the limit, and the log has no event of it',
  async (t) => {
    const server = await startTestServer(t, { LOG_LEVEL: 'silent', GIT_TIMEOUT_MS: '1500' })
    const alice = await server.as('alice')
    const { data: repository } = await alice.user.createCurrentUserRepo({ name: 'app' })
    const repoId = repository.id ?? 0
    const dir = gitDirOf(server.services, repoId)
    const work = t.testdir()
    await initWork(work)
    const body = await pushBody(work, MAIN, await commit(work, 'a', { f: '1' }, []))
    const before = await server.services.events.lastPosition()
    const { promise: isOver, resolve: release } = Promise.withResolvers<void>()
    // git has to wait for the lock of its repository.
    const other = server.services.runExclusive(refLockKey(repoId), () => isOver)
    const answering = server.fetch('alice', '/alice/app.git/git-receive-pack', {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-receive-pack-request' },
      body: new Uint8Array(body),
    })
    const { slots } = server.services.gitLimits.pushes
    await until('git works', () => slots.counts().running > 0)
    await until('git is ended', () => slots.counts().running === 0)
    release()
    await other
    const answer = await answering
    t.equal(answer.status, 200, 'git reads the reason only from a 200')
    t.match(await answer.text(), /ng refs\/heads\/main the push took longer than 2 s/)
    t.same(await listRefs(dir), [])
    t.same(await quarantines(dir), [])
    t.equal(await server.services.events.lastPosition(), before)
  },
)
