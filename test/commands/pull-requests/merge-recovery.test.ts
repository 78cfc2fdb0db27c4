import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import {
  type NewEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../../src/events/store/event-store.ts'
import { claimKeys, claimStream, gitStream, pullStream } from '../../../src/events/streams.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls } from './pull-repository.ts'

/** The write after which (or before which) writes to a repository stop. */
interface Death {
  /** For the title of its assertions. */
  name: string
  isAt(event: { type: string; data: unknown }): boolean
  /** Whether that write still happens. */
  written: boolean
  /** Whether the end of the merge is one append, as in the embedded log, or several. */
  atOnce?: boolean
}

/** The appended events. */
interface Made {
  stream: string
  events: readonly NewEvent[]
}

const ofType = (wanted: string) => (event: { type: string }) => event.type === wanted
const refsOf = (cause: string) => (event: { type: string; data: unknown }) =>
  event.type === 'RefsUpdated' && JSON.stringify(event.data).includes(`"cause":"${cause}"`)

const NOT_MOVED: Death = { name: 'after the intent', isAt: ofType('MergeStarted'), written: true }
const MOVED: Death = { name: 'after the branch has moved', isAt: refsOf('merge'), written: false }
const RECORDED: Death = { name: 'before the outcome', isAt: ofType('PullRequestMerged'), written: false }
const MERGED: Death = { name: 'after the outcome', isAt: ofType('PullRequestMerged'), written: true }
const MOVED_ALONE: Death = { ...MOVED, name: 'before all of the outcome', atOnce: true }
const ALL: Death = { name: 'after all of the outcome', isAt: refsOf('merge'), written: true, atOnce: true }
const DELETED: Death = { name: 'after the deletion', isAt: refsOf('branch-deletion'), written: false }
const UNSAID: Death = { name: 'before the comment', isAt: ofType('HeadBranchDeleted'), written: false }

const CASES: { style: string; death: Death }[] = [
  // Recovery is the same in each style.
  { style: 'merge', death: NOT_MOVED },
  { style: 'rebase', death: MOVED },
  { style: 'rebase-merge', death: NOT_MOVED },
  { style: 'fast-forward-only', death: MOVED },
  ...[RECORDED, MERGED, MOVED_ALONE, ALL, DELETED, UNSAID].map((death) => ({ style: 'squash', death })),
  { style: 'manually-merged', death: MERGED },
]

/**
 * Stops all writes to the repository from that one on, as if the process was killed there. Returns the repositories
 * that
 * reached it.
 */
function failAppendsFrom({ services }: TestServer, deaths: ReadonlyMap<number, Death>): Set<number> {
  const { events, views, pushJournal, readStore } = services
  const dead = new Set<number>()
  async function unlessDead<T>({ stream, events: recorded }: Made, write: () => Promise<T>): Promise<T> {
    const repoId = Number(/^(?:pull|git)-(\d+)/.exec(stream)?.[1])
    const death = deaths.get(repoId)
    const isLast = death !== undefined && recorded.some((event) => death.isAt(event))
    if (isLast && death.written) await write()
    if (isLast) dead.add(repoId)
    if (dead.has(repoId)) throw new StoreUnavailable('killed')
    return write()
  }
  const { append, appendTogether } = events
  events.append = (stream, recorded, expected) =>
    unlessDead({ stream, events: recorded }, () => append.call(events, stream, recorded, expected))
  events.appendTogether = async (makers) => {
    // The end of the merge starts with the move of the branch.
    const first = makers[0]?.([]) ?? { stream: '', events: [] }
    const death = deaths.get(Number(/^git-(\d+)/.exec(first.stream)?.[1]))
    if (death !== undefined && !death.atOnce) throw new WrongExpectedRevision(first.stream, 'any', null)
    const write = async () => (await appendTogether?.call(events, makers)) ?? []
    return unlessDead(first, write)
  }
  // The dead process does not recover anything itself.
  const { find } = views.pulls
  views.pulls.find = async (filter, options) => (filter.merging === true ? [] : find(filter, options))
  const { begin } = pushJournal
  pushJournal.begin = async (key, owner) => {
    if (dead.has(Number(key))) throw new StoreUnavailable('killed')
    return begin.call(pushJournal, key, owner)
  }
  const { apply } = readStore
  readStore.apply = async (changes, checkpoints) => {
    if (!checkpoints.has('process_head_branches')) await apply.call(readStore, changes, checkpoints)
  }
  return dead
}

/** The branches of a repository as its log has them. */
async function loggedHeads(server: TestServer, repoId: number): Promise<string[]> {
  const heads = new Map<string, string>()
  for (const event of await eventsIn(server, gitStream(repoId))) {
    if (event.type !== 'RefsUpdated') continue
    for (const { ref, to } of event.data.refs) {
      if (to === null) heads.delete(ref)
      else heads.set(ref, to)
    }
  }
  return [...heads].map(([ref, sha]) => `${sha} ${ref}`).sort()
}

async function gitHeads({ work, dir }: PullRepository): Promise<string[]> {
  const format = '--format=%(objectname) %(refname)'
  return (await work.git('--git-dir', dir, 'for-each-ref', format, 'refs/heads')).split('\n').sort()
}

t.test('the next start finishes a merge that was interrupted at any point once, in any style', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-recovery-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startPulls(t, { DATA_DIR, LOG_LEVEL: 'silent' })
  const cutOff = async ({ style, death }: (typeof CASES)[number], i: number) => {
    const hosted = await first.repository(t, `app${i}`, { allow_manual_merge: true })
    const from = await hosted.work.git('rev-parse', 'main')
    const head = await hosted.branch('topic', { a: 'a' })
    const forward = style === 'fast-forward-only'
    const main = forward ? from : await hosted.branch('main', { m: 'm' }, from)
    await hosted.open('topic')
    return { style, death, hosted, head, main }
  }
  const cut = await Promise.all(CASES.map(cutOff))
  const overtaken = await first.repository(t, 'overtaken')
  await overtaken.branch('topic', { a: 'a' })
  const pushed = await overtaken.branch('elsewhere', { b: 'b' })
  await overtaken.open('topic')

  const deaths = new Map(cut.map(({ hosted, death }) => [hosted.repoId, death]))
  const dead = failAppendsFrom(first.server, deaths.set(overtaken.repoId, NOT_MOVED))
  await Promise.all(
    cut.map(async ({ style, death, hosted, main }) => {
      const body = { Do: style, MergeCommitID: main, delete_branch_after_merge: true }
      const { status } = await hosted.merge(1, body)
      // `merge.8`: the failure of a comment is ignored.
      t.equal(status, death === UNSAID ? 200 : 503, `${style} was cut off ${death.name}`)
    }),
  )
  t.equal((await overtaken.merge(1)).status, 503)
  t.equal(dead.size, cut.length + 1)
  for (const { style, death, hosted, main } of cut) {
    const heads = await gitHeads(hosted)
    const isMoved = death !== NOT_MOVED && style !== 'manually-merged'
    t.equal(heads.includes(`${main} refs/heads/main`), !isMoved, `${style} was cut off ${death.name}`)
    const isDeleted = death === DELETED || death === UNSAID
    t.equal(
      heads.some((line) => line.endsWith('/topic')),
      !isDeleted,
    )
  }
  await overtaken.work.git('--git-dir', overtaken.dir, 'update-ref', 'refs/heads/main', pushed)
  await first.server.stop()

  const server = await startTestServer(t, { DATA_DIR })
  const { views, events } = server.services
  t.strictSame(await views.pulls.find({ merging: true }), [])
  const last = await events.lastPosition()
  for (const { style, death, hosted, head, main } of cut) {
    const { repoId, name } = hosted
    const title = `${style}, cut off ${death.name}`
    await until(`${title}: the head branch is gone`, async () =>
      (await gitHeads(hosted)).every((line) => !line.endsWith('/topic')),
    )
    await until('the log says so', async () => (await loggedHeads(server, repoId)).length === 1)
    t.strictSame(await loggedHeads(server, repoId), await gitHeads(hosted), `${title}: git and the log agree`)

    const history = await eventsIn(server, pullStream(repoId, 1))
    const merged = history.flatMap((event) => (event.type === 'PullRequestMerged' ? [event.data] : []))
    t.equal(merged.length, 1, `${title}: merged once`)
    t.match(merged[0], { style, head })
    const [outcome] = merged
    const started = history.find(({ type }) => type === 'MergeStarted')
    if (style !== 'manually-merged') t.match(started, { data: { commit: outcome?.commit } })
    t.equal((await gitHeads(hosted))[0], `${outcome?.commit} refs/heads/main`, `${title}: main`)
    const git = await eventsIn(server, gitStream(repoId))
    const moves = git.flatMap((event) => (event.type === 'RefsUpdated' ? event.data.refs : []))
    const onto = moves.filter(({ ref, from }) => ref === 'refs/heads/main' && from === main)
    t.equal(onto.length, style === 'manually-merged' ? 0 : 1, `${title}: the branch moved once`)

    const path = `/api/v1/repos/alice/${name}/pulls/1`
    const pull: unknown = await (await server.fetch('alice', path)).json()
    t.match(pull, { merged: true, merge_commit_sha: outcome?.commit, merged_by: { login: 'alice' } })
    const again = await server.fetch('alice', `${path}/merge`, {
      method: 'POST',
      body: '{}',
    })
    t.equal(again.status, 405)
  }
  t.ok((await events.lastPosition()) >= last)

  const history = (await eventsIn(server, pullStream(overtaken.repoId, 1))).map(({ type }) => type)
  t.ok(history.includes('MergeFailed'), 'a merge whose base went elsewhere has failed')
  t.notOk(history.includes('PullRequestMerged'))
  const retried = await server.fetch('alice', '/api/v1/repos/alice/overtaken/pulls/1/merge', {
    method: 'POST',
  })
  t.equal(retried.status, 200, 'and can be tried again')

  for (const { hosted, style, death } of cut) {
    // The claim of one that is merged can be taken over: see claims.ts.
    if (death === MERGED) continue
    const branch = { repoId: hosted.repoId, branch: 'topic' }
    const key = claimKeys.pull(branch, { ...branch, branch: 'main' })
    const claims = await eventsIn(server, claimStream(key))
    t.equal(claims.at(-1)?.type, 'ClaimReleased', `${style}, cut off ${death.name}: others may be opened`)
  }
})
