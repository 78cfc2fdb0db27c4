/** Keywords before a reference (`fixes #3`) close issues when their text is merged or pushed. */
import { randomUUID } from 'node:crypto'
import type { EditIssueOption } from 'gitea-js'
import t from 'tap'
import { decode } from '../../src/events/codec.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { issueStream } from '../../src/events/streams.ts'
import { references } from '../../src/processes/issues/references.ts'
import { contextOf } from '../../src/processes/process-manager.ts'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

const server = await startTestServer(t)
const { services } = server
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

let files = 0

/** A repository of alice's, in which bob may write. */
async function repository(name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'write' })
  const repoId = data.id ?? 0
  const state = async (index: number) => (await alice.repos.issueGetIssue('alice', name, index)).data.state
  const open = async (title = 'T', who = alice) =>
    (await who.repos.issueCreateIssue('alice', name, { title })).data.number ?? 0
  const commit = async (message: string, branch: string, from = 'main', who = alice) => {
    files += 1
    const file = `file-${files}`
    const content = Buffer.from('x').toString('base64')
    const place = branch === from ? { branch } : { branch: from, new_branch: branch }
    await who.repos.repoCreateFile('alice', name, file, { content, message, ...place })
  }
  const pull = async (option: { title?: string; body?: string }, head: string, base = 'main') =>
    (await alice.repos.repoCreatePullRequest('alice', name, { title: 'P', head, base, ...option })).data
      .number ?? 0
  /** All earlier reactions are done when a later push has closed an issue. */
  const settled = async () => {
    const last = await open('the last one')
    await commit(`closes #${last}`, 'main')
    await until('the last issue is closed', async () => (await state(last)) === 'closed')
  }
  return {
    repoId,
    state,
    open,
    commit,
    pull,
    settled,
    merge: (index: number, who = alice, Do: 'merge' | 'squash' | 'rebase' = 'merge') =>
      who.repos.repoMergePullRequest('alice', name, index, { Do }),
    edit: (index: number, option: EditIssueOption) =>
      alice.repos.issueEditIssue('alice', name, index, option),
    closed: (index: number) => until(`#${index} is closed`, async () => (await state(index)) === 'closed'),
    /** The events of an issue. */
    events: async (index: number) => {
      const found: Recorded<DomainEvent>[] = []
      for await (const event of services.events.readStream(issueStream(repoId, index)))
        found.push(decode(event))
      return found
    },
  }
}

t.test(
  "closing keywords: `fixes #3` in a pull request's title, body or commits closes the issue when it is merged into the default branch",
  async (t) => {
    const { repoId, open, commit, pull, merge, state, closed, events } = await repository('merged')
    const [byTitle, byBody, byCommit, named] = [await open(), await open(), await open(), await open()]
    await commit(`Do it\n\nResolves: #${byCommit}`, 'topic')
    const index = await pull(
      { title: `Fix #${byTitle} and #${named}`, body: `This **closes** #${byBody}, not \`fixes #${named}\`` },
      'topic',
    )
    t.equal(await state(byTitle), 'open', 'before the merge nothing is closed')
    await merge(index, bob)
    for (const issue of [byTitle, byBody, byCommit]) await closed(issue)
    t.equal(await state(named), 'open', 'a reference without a keyword, and one in code, close nothing')
    const { data } = await alice.repos.repoGetPullRequest('alice', 'merged', index)
    const event = (await events(byTitle)).at(-1)
    const cause = { repoId, pull: index, commit: data.merge_commit_sha }
    t.match(event, {
      type: 'StatusChanged',
      data: { closed: true, cause },
      metadata: { actor: { login: 'bob' } },
    })
    t.equal(event?.metadata.causationId, (await mergeEvent(repoId, index))?.id, 'the merge is its cause')
    const timeline = (await alice.repos.issueGetCommentsAndTimeline('alice', 'merged', byTitle)).data
    t.match(timeline.at(-1), { type: 'close', user: { login: 'bob' } })
    const replay = async (revision: number) =>
      JSON.parse(
        await (
          await server.fetch(
            'alice',
            `/api/v1/repos/alice/merged/issues/${byTitle}/replay?revision=${revision}`,
          )
        ).text(),
      )
    t.match(await replay(event?.revision ?? 0), { state: 'closed' }, 'it is replayed')
    t.match(await replay((event?.revision ?? 0) - 1), { state: 'open' })
  },
)

async function mergeEvent(repoId: number, index: number) {
  for await (const event of services.events.readStream(`pull-${repoId}.${index}`)) {
    if (event.type === 'PullRequestMerged') return event
  }
  return undefined
}

for (const style of ['squash', 'rebase'] as const) {
  t.test(`closing keywords: the style ${style} closes, too`, async (t) => {
    const { open, commit, pull, merge, closed, state } = await repository(style)
    const [first, second] = [await open(), await open()]
    await commit(`fixed #${first}`, 'topic')
    await merge(await pull({ body: `closed #${second}` }, 'topic'), alice, style)
    await closed(first)
    await closed(second)
    t.equal(await state(second), 'closed')
  })
}

t.test('closing keywords: only merges and pushes into the default branch close', async (t) => {
  const { open, commit, pull, merge, state, settled } = await repository('branches')
  const issue = await open()
  await commit('Begin', 'next')
  await commit(`fixes #${issue}`, 'topic')
  await merge(await pull({ title: `fixes #${issue}` }, 'topic', 'next'))
  await settled()
  t.equal(await state(issue), 'open')
})

t.test('closing keywords: commits pushed to the default branch close, and reopen', async (t) => {
  const { repoId, open, state, closed, edit, events } = await repository('pushed')
  const [first, second, third] = [await open(), await open(), await open()]
  await edit(third, { state: 'closed' })
  const work = await workTree(t, server.gitUrl('bob', 'alice/pushed'))
  const commit = await work.commit(`fixes #${first}`, { a: '1' })
  await work.commit(`closes alice/pushed#${second}\n\nreopens #${third}`, { a: '2' })
  await work.git('push', '-q', 'origin', 'main')
  await closed(first)
  await closed(second)
  await until('the third is open again', async () => (await state(third)) === 'open')
  t.match((await events(first)).at(-1), {
    type: 'StatusChanged',
    data: { closed: true, cause: { repoId, pull: null, commit } },
    metadata: { actor: { login: 'bob' } },
  })
})

t.test('closing keywords: the first push of an empty repository closes', async (t) => {
  const { open, closed, state } = await repository('empty', { auto_init: false })
  const issue = await open()
  const work = await workTree(t, server.gitUrl('alice', 'alice/empty'))
  await work.git('checkout', '-q', '-B', 'main')
  await work.commit('Begin', { a: '1' })
  await work.commit(`fixes #${issue}`, { a: '2' })
  await work.git('push', '-q', 'origin', 'main')
  await closed(issue)
  t.equal(await state(issue), 'closed')
})

t.test(
  'closing keywords: `closes o/r#4` with the permissions of the merging or pushing user, in another repository, too',
  async (t) => {
    const app = await repository('app')
    const issueOf = async (name: string, who = carol) => {
      const { data } = await who.repos.issueCreateIssue('carol', name, { title: 'T' })
      return data.number ?? 0
    }
    for (const name of ['lib', 'secret', 'old']) {
      await carol.user.createCurrentUserRepo({ name, private: name === 'secret' })
    }
    await carol.repos.repoAddCollaborator('carol', 'lib', 'alice', { permission: 'write' })
    await carol.repos.repoAddCollaborator('carol', 'old', 'alice', { permission: 'write' })
    const [ofLib, ofSecret, ofOld] = [await issueOf('lib'), await issueOf('secret'), await issueOf('old')]
    await carol.repos.repoEdit('carol', 'old', { archived: true })
    const ofBob = await issueOf('lib', bob)
    const stateOf = async (name: string, index: number) =>
      (await carol.repos.issueGetIssue('carol', name, index)).data.state
    const text = (index: number) =>
      `closes carol/lib#${index}, closes carol/secret#${ofSecret}, closes carol/old#${ofOld}`
    await app.commit(text(ofLib), 'main', 'main', bob)
    await app.settled()
    t.equal(await stateOf('lib', ofLib), 'open', 'bob may only read there')
    await app.commit(text(ofBob), 'main', 'main', bob)
    await until('bob has closed his own issue', async () => (await stateOf('lib', ofBob)) === 'closed')
    await app.commit('Begin', 'topic')
    const index = await app.pull({ body: text(ofLib) }, 'topic')
    await app.merge(index)
    await until('alice may write there', async () => (await stateOf('lib', ofLib)) === 'closed')
    await app.settled()
    t.same([await stateOf('secret', ofSecret), await stateOf('old', ofOld)], ['open', 'open'])

    const another = await issueOf('lib')
    await app.commit(`closes carol/lib#${another}`, 'of-bob', 'main', bob)
    const { data: ofBobs } = await bob.repos.repoCreatePullRequest('alice', 'app', {
      ...{ title: 'P', head: 'of-bob', base: 'main', body: text(another) },
    })
    await app.merge(ofBobs.number ?? 0)
    await app.settled()
    t.equal(await stateOf('lib', another), 'open', 'who opened the pull request may not close it there')
  },
)

t.test(
  'closing keywords: an issue that depends on open ones stays open, and a pull request is not closed',
  async (t) => {
    const { open, commit, pull, state, settled } = await repository('waits')
    const [blocked, blocking] = [await open(), await open()]
    const dependency = await server.fetch(
      'alice',
      `/api/v1/repos/alice/waits/issues/${blocked}/dependencies`,
      {
        method: 'POST',
        body: JSON.stringify({ index: blocking }),
      },
    )
    t.equal(dependency.status, 201)
    await commit('Other', 'topic')
    const index = await pull({}, 'topic')
    await commit(`fixes #${blocked}, fixes #${index}, fixes #99`, 'main')
    await settled()
    t.same([await state(blocked), await state(index)], ['open', 'open'])
  },
)

t.test(
  'closing keywords: an issue whose dependency the same merge closes is closed, too: "fixes #3, fixes #4" where #3 depends on #4',
  async (t) => {
    const { open, commit, pull, merge, closed, state, settled } = await repository('together')
    const [first, second, third] = [await open(), await open(), await open()]
    const [outside, waiting] = [await open(), await open()]
    for (const [index, on] of [
      [first, second],
      [second, third],
      [waiting, outside],
    ] as const) {
      const path = `/api/v1/repos/alice/together/issues/${index}/dependencies`
      const body = JSON.stringify({ index: on })
      t.equal((await server.fetch('alice', path, { method: 'POST', body })).status, 201)
    }
    await commit('Begin', 'topic')
    const named = [waiting, first, second, third].map((index) => `fixes #${index}`)
    await merge(await pull({ body: named.join(', ') }, 'topic'))
    for (const index of [first, second, third]) await closed(index)
    await settled()
    t.same([await state(waiting), await state(outside)], ['open', 'open'], 'what others block stays open')
  },
)

t.test(
  'closing keywords: the texts of a merged pull request count as they were at the merge, not when the process runs',
  async (t) => {
    const { repoId, open, commit, pull, merge, closed, edit, state, settled } = await repository('texts')
    const [named, later] = [await open(), await open()]
    await commit('Begin', 'topic')
    const index = await pull({ title: `fixes #${named}` }, 'topic')
    await merge(index)
    await closed(named)
    await edit(named, { state: 'open' })
    await edit(index, { title: `fixes #${later}`, body: `closes #${later}` })
    const merged = await mergeEvent(repoId, index)
    if (merged === undefined) throw new Error('it is not merged')
    // As if the process was late: no reaction to this event was carried out yet.
    const event = decode({ ...merged, id: randomUUID() })
    await references(services).react(event, contextOf(event))
    await settled()
    t.same([await state(named), await state(later)], ['closed', 'open'])
  },
)

t.test('closing keywords: a redelivered event closes nothing again', async (t) => {
  const { repoId, open, commit, pull, merge, closed, edit, state, events } = await repository('again')
  const issue = await open()
  await commit('Begin', 'topic')
  const index = await pull({ title: `fixes #${issue}` }, 'topic')
  await merge(index)
  await closed(issue)
  await edit(issue, { state: 'open' })
  const merged = await mergeEvent(repoId, index)
  if (merged === undefined) throw new Error('it is not merged')
  const event = decode(merged)
  await references(services).react(event, contextOf(event))
  t.equal(await state(issue), 'open')
  t.equal((await events(issue)).filter(({ type }) => type === 'StatusChanged').length, 2)
})

t.test(
  'closing keywords: events before the first start close nothing: an import is not a push',
  async (t) => {
    const { repoId, open, commit, pull, merge, closed, edit, state } = await repository('old')
    const issue = await open()
    await commit('Begin', 'topic')
    const index = await pull({ title: `fixes #${issue}` }, 'topic')
    await merge(index)
    await closed(issue)
    await edit(issue, { state: 'open' })
    const merged = await mergeEvent(repoId, index)
    if (merged === undefined) throw new Error('it is not merged')
    const at = new Date(Date.now() - 48 * 60 * 60 * 1000).toISOString()
    const event = decode({ ...merged, id: 'another', metadata: { ...merged.metadata, at } })
    const process = references({ ...services, startedAfter: merged.position })
    await process.react(event, contextOf(event))
    t.equal(await state(issue), 'open')
  },
)
