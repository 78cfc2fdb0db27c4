import t from 'tap'
import { gitStream } from '../../../src/events/streams.ts'
import { workTree } from '../../git-client.ts'
import { eventsIn, startPulls } from './pull-repository.ts'

const { server, repository } = await startPulls(t)

/** Returns the recorded moves of main. */
async function movesOfMain(repoId: number) {
  const updates = await eventsIn(server, gitStream(repoId))
  const moves = updates.flatMap((event) => (event.type === 'RefsUpdated' ? event.data.refs : []))
  return moves.filter(({ ref }) => ref === 'refs/heads/main')
}

t.test(
  'concurrent merges of one pull request, by any style: one of them gives 200, the others give 405',
  async (t) => {
    const { branch, open, merge, typesOf, repoId } = await repository(t, 'rush')
    await branch('topic', { a: 'a' })
    const index = await open('topic')
    const styles = ['merge', 'rebase', 'rebase-merge', 'squash', 'fast-forward-only']
    const answers = await Promise.all([...styles, ...styles].map((Do) => merge(index, { Do })))
    t.strictSame(answers.map(({ status }) => status).sort(), [200, ...Array(9).fill(405)])
    t.equal((await typesOf(index)).filter((type) => type === 'PullRequestMerged').length, 1)
    t.equal((await movesOfMain(repoId)).length, 2, 'the first commit and the merge')
  },
)

t.test(
  '20 pull requests merged at the same time, between pushes: all succeed and no commit is lost',
  async (t) => {
    const { open, merge, work, tip, repoId, branches } = await repository(t, 'crowd')
    const PULLS = 20
    const styles = ['merge', 'squash', 'rebase', 'rebase-merge'] as const
    const names = Array.from({ length: PULLS }, (_, i) => `f${i}`)
    await branches(...names)
    const heads = (await work.git('rev-parse', ...names)).split('\n')
    const numbers: number[] = []
    for (let i = 0; i < PULLS; i++) numbers.push(await open(`f${i}`))

    const merging = Promise.all(
      numbers.map(async (index, i) => {
        for (;;) {
          const { status, message } = await merge(index, { Do: styles[i % styles.length] })
          if (status === 200) return
          if (status !== 409 || !/push out of date/.test(message)) {
            throw new Error(`merge ${index} gave ${status} ${message}`)
          }
        }
      }),
    )
    const pushed: string[] = []
    const pusher = await workTree(t, server.gitUrl('alice', 'alice/crowd'))
    for (let i = 0; i < 3; i++) {
      await pusher.git('fetch', '-q')
      await pusher.git('reset', '-q', '--hard', 'origin/main')
      const sha = await pusher.commit(`Pushed ${i}`, { [`p${i}`]: 'x' })
      const isIn = pusher.git('push', '-q', 'origin', 'HEAD:main').then(
        () => true,
        () => false,
      )
      if (await isIn) pushed.push(sha)
    }
    await merging
    await work.git('fetch', '-q')
    const merged = heads.filter((_, i) => styles[i % styles.length] === 'merge')
    for (const commit of [...merged, ...pushed]) {
      await work.git('merge-base', '--is-ancestor', commit, 'origin/main')
    }
    const files = (await work.git('ls-tree', '--name-only', 'origin/main')).split('\n')
    t.equal(files.filter((file) => /^f\d+$/.test(file)).length, PULLS, 'every change is merged')

    const moves = await movesOfMain(repoId)
    t.equal(moves.length, 1 + PULLS + pushed.length)
    let at: string | null = null
    for (const { from, to } of moves) {
      if (from !== at) t.fail(`the log has a move from ${from}, but the branch was at ${at}`)
      if (from !== null && to !== null) await work.git('merge-base', '--is-ancestor', from, to)
      at = to
    }
    t.equal(await tip('main'), at)
  },
)

t.test(
  'with an Idempotency-Key, a merge of any style happens once, and each retry gets its answer',
  async (t) => {
    const settings = { allow_manual_merge: true }
    const { branch, open, merge, tip, work, typesOf, repoId } = await repository(t, 'once', settings)
    const MergeCommitID = await work.git('rev-parse', 'main')
    for (const Do of ['merge', 'squash', 'rebase', 'rebase-merge', 'fast-forward-only', 'manually-merged']) {
      await work.git('fetch', '-q')
      await branch(Do, { [Do]: 'x' }, 'origin/main')
      const index = await open(Do)
      const body = { Do, delete_branch_after_merge: true, ...(Do === 'manually-merged' && { MergeCommitID }) }
      const moved = (await movesOfMain(repoId)).length
      const send = (more = {}) => merge(index, { ...body, ...more }, 'alice', { 'idempotency-key': 'key' })
      const answers = [...(await Promise.all([send(), send(), send()])), await send()]
      t.strictSame(
        answers.map(({ status }) => status),
        [200, 200, 200, 200],
        Do,
      )
      const types = await typesOf(index)
      for (const type of ['PullRequestMerged', 'HeadBranchDeleted']) {
        t.equal(types.filter((one) => one === type).length, 1, `${Do}: ${type}`)
      }
      const moves = await movesOfMain(repoId)
      t.equal(moves.length, Do === 'manually-merged' ? moved : moved + 1)
      t.equal((await send({ MergeTitleField: 'Other' })).status, 422, 'another body is a mistake')
      // A branch of that name that is pushed later is another one.
      const again = await branch(Do, { [`${Do} again`]: 'x' }, 'origin/main')
      t.equal((await send()).status, 200)
      t.equal(await tip(Do), again)
    }
  },
)

t.test(
  'a retry of a failed merge never deletes the head branch of a pull request closed since',
  async (t) => {
    const { branch, open, merge, dir, tip, work, close } = await repository(t, 'failed')
    const head = await branch('topic', { a: 'a' })
    const pushed = await branch('elsewhere', { b: 'b' })
    const index = await open('topic')
    const store = server.services.events
    const { append } = store
    store.append = async (stream, recorded, expected) => {
      const appended = await append.call(store, stream, recorded, expected)
      if (recorded.some(({ type }) => type === 'MergeStarted')) {
        store.append = append
        await work.git('--git-dir', dir, 'update-ref', 'refs/heads/main', pushed)
      }
      return appended
    }
    const send = () =>
      merge(index, { delete_branch_after_merge: true }, 'alice', { 'idempotency-key': 'failed' })
    t.match(await send(), { status: 409, message: /push out of date/ })
    t.match(await send(), { status: 409, message: /this merge has failed/ })
    await close(index)
    t.match(await send(), { status: 409, message: /this merge has failed/ })
    t.equal(await tip('topic'), head)
  },
)
