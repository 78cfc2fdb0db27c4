/** Texts and commits that name an issue or pull request appear in its timeline. */
import type { TimelineComment } from 'gitea-js'
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
const [alice, bob] = await Promise.all([server.as('alice'), server.as('bob')])

async function repository(name: string, options: object = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, ...options })
  const timelinePath = (index: number, query = '') =>
    `/api/v1/repos/alice/${name}/issues/${index}/timeline${query}`
  const answer = (index: number, login: string | null = 'alice', query = '') =>
    server.fetch(login, timelinePath(index, query))
  /** The rows, and their number by `X-Total-Count`. */
  const timeline = async (index: number, login: string | null = 'alice', query = '') => {
    const got = await answer(index, login, query)
    const rows: TimelineComment[] = JSON.parse(await got.text())
    return { rows, total: got.headers.get('x-total-count') }
  }
  const types = async (index: number, login: string | null = 'alice') =>
    (await timeline(index, login)).rows.map(({ type }) => type)
  return {
    repoId: data.id ?? 0,
    timeline,
    types,
    /** Waits until the timeline has rows of exactly these types. */
    shows: (index: number, ...wanted: string[]) =>
      until(`#${index} shows ${wanted}`, async () => `${await types(index)}` === `${wanted}`),
    open: async (option: { title?: string; body?: string } = {}, who = alice) =>
      (await who.repos.issueCreateIssue('alice', name, { title: 'T', ...option })).data.number ?? 0,
    say: async (index: number, body: string, who = alice) =>
      (await who.repos.issueCreateComment('alice', name, index, { body })).data.id ?? 0,
  }
}

t.test(
  "cross references: an issue mentioned elsewhere (`#3`, `o/r#3`) shows it in its timeline with Gitea's types",
  async (t) => {
    const own = await repository('app', { auto_init: true })
    const other = await repository('other')
    const target = await own.open()
    const issue = await own.open({ body: `See #${target}, and #${target} again` })
    await own.shows(target, 'issue_ref')
    const comment = await own.say(issue, `also alice/app#${target}`, bob)
    await own.shows(target, 'issue_ref', 'comment_ref')
    const far = await other.open({ title: `As alice/APP#${target}` })
    await own.shows(target, 'issue_ref', 'comment_ref', 'issue_ref')
    const content = Buffer.from('x').toString('base64')
    const message = `Work on "#${target}" & <more>\n\nText`
    const made = await alice.repos.repoCreateFile('alice', 'app', 'x', {
      content,
      message,
      new_branch: 'topic',
    })
    await own.shows(target, 'issue_ref', 'comment_ref', 'issue_ref', 'commit_ref')
    const option = { head: 'topic', base: 'main', title: 'P', body: `Fixes #${target}` }
    const { number: pull = 0 } = (await alice.repos.repoCreatePullRequest('alice', 'app', option)).data
    await own.shows(target, 'issue_ref', 'comment_ref', 'issue_ref', 'commit_ref', 'pull_ref')
    await bob.repos.repoCreatePullReview('alice', 'app', pull, {
      event: 'COMMENT',
      body: `Not #${target}`,
      comments: [{ path: 'x', new_position: 1, body: `#${target}` }],
    })
    await own.shows(
      target,
      ...['issue_ref', 'comment_ref', 'issue_ref', 'commit_ref', 'pull_ref', 'comment_ref', 'comment_ref'],
    )
    const { rows, total } = await own.timeline(target)
    t.equal(total, '7')
    const sha = made.data.commit?.sha ?? ''
    t.match(rows, [
      { ref_issue: { number: issue, repository: { name: 'app' } }, ref_comment: null, ref_action: 'none' },
      { ref_issue: { number: issue }, ref_comment: { id: comment, user: { login: 'bob' } } },
      { ref_issue: { number: far, repository: { full_name: 'alice/other' } }, ref_comment: null },
      { ref_issue: null, ref_commit_sha: sha, user: { login: 'alice' } },
      { ref_issue: { number: pull }, ref_comment: null, ref_action: 'closes' },
      { ref_issue: { number: pull }, ref_comment: { user: { login: 'bob' } } },
      { ref_issue: { number: pull }, ref_comment: { user: { login: 'bob' } } },
    ])
    const address = `${server.url}/alice/app/commit/${sha}`
    t.equal(rows[3]?.body, `<a href="${address}">Work on &#34;#${target}&#34; &#38; &#60;more&#62;</a>`)
    t.match(
      new Set(rows.slice(5).map((row) => row.ref_comment?.body)),
      new Set([`Not #${target}`, `#${target}`]),
    )
    t.same(await own.types(issue), ['comment'], 'a text does not name its own issue')
    t.match((await own.timeline(target, 'alice', '?limit=2&page=2')).rows, [
      { type: 'issue_ref' },
      { type: 'commit_ref' },
    ])
    await alice.repos.repoMergePullRequest('alice', 'app', pull, { Do: 'merge' })
    await own.shows(
      target,
      ...['issue_ref', 'comment_ref', 'issue_ref', 'commit_ref', 'pull_ref', 'comment_ref', 'comment_ref'],
      'close',
    )
    t.match(await own.types(pull), ['pull_push', 'review', 'merge_pull'], 'its own merge is one row')
    t.equal((await own.timeline(pull)).total, '3')
  },
)

t.test(
  'cross references: a mention is visible only to readers of its place, and is not counted',
  async (t) => {
    const own = await repository('open')
    const hidden = await repository('hidden', { private: true, auto_init: true })
    const target = await own.open()
    await hidden.open({ title: `alice/open#${target}` })
    const { number = 0 } = (await alice.repos.issueCreateIssue('alice', 'hidden', { title: 'T' })).data
    await hidden.say(number, `alice/open#${target}`)
    const content = Buffer.from('x').toString('base64')
    const message = `alice/open#${target}`
    await alice.repos.repoCreateFile('alice', 'hidden', 'x', { content, message })
    await own.shows(target, 'issue_ref', 'comment_ref', 'commit_ref')
    await own.say(target, 'last')
    for (const login of ['bob', null]) {
      const seen = await own.timeline(target, login)
      t.match([seen.rows.map(({ type }) => type), seen.total], [['comment'], '1'])
      const page = await own.timeline(target, login, '?limit=1&page=2')
      t.same(page.rows, [])
    }
    await alice.repos.repoAddCollaborator('alice', 'hidden', 'bob', { permission: 'read' })
    t.same(await own.types(target, 'bob'), ['issue_ref', 'comment_ref', 'commit_ref', 'comment'])
    await alice.repos.repoDeleteCollaborator('alice', 'hidden', 'bob')
    t.same(await own.types(target, 'bob'), ['comment'], 'it is decided at reading time')
    const history = await (
      await server.fetch('bob', `/api/v1/repos/alice/open/issues/${target}/history`)
    ).text()
    t.notMatch(history, new RegExp(`"repoId":${hidden.repoId}\\b`))
  },
)

t.test('cross references: a user without read access to an issue cannot refer to it', async (t) => {
  const hidden = await repository('secret', { private: true })
  const own = await repository('public')
  const target = await hidden.open()
  const sentinel = await own.open()
  const issue = await own.open({ body: `alice/secret#${target} and #${sentinel}` }, bob)
  await own.shows(sentinel, 'issue_ref')
  t.same(await hidden.types(target), [])
  await own.say(issue, `alice/secret#${target}`)
  await hidden.shows(target, 'comment_ref')
})

t.test('cross references: an edited, deleted or erased text refers to its current targets', async (t) => {
  const own = await repository('edited')
  const [first, second, issue] = [await own.open(), await own.open(), await own.open()]
  const comment = await own.say(issue, `#${first}`)
  await own.shows(first, 'comment_ref')
  const before = (await own.timeline(first)).rows[0]
  const edit = (body: string) => alice.repos.issueEditComment('alice', 'edited', comment, { body })
  await edit(`#${first} and #${second}, but not \`#${issue}\``)
  await own.shows(second, 'comment_ref')
  t.match((await own.timeline(first)).rows, [{ id: before?.id, created_at: before?.created_at }])
  await edit(`only #${second}`)
  await own.shows(first)
  await alice.repos.issueDeleteComment('alice', 'edited', comment)
  await own.shows(second)
  await alice.repos.issueEditIssue('alice', 'edited', issue, {
    title: `like #${first}`,
    body: `#${second}`,
  })
  await own.shows(first, 'issue_ref')
  await own.shows(second, 'issue_ref')
  await alice.repos.issueEditIssue('alice', 'edited', issue, { title: 'no more' })
  await own.shows(first)
  await own.say(issue, `#${first}`)
  await own.shows(first, 'comment_ref')
  const erased = await server.fetch('alice', `/api/v1/repos/alice/edited/issues/${issue}/erase`, {
    method: 'POST',
    body: '{"all": true}',
  })
  t.ok(erased.ok, `${erased.status}`)
  await own.shows(first)
  await own.shows(second)
})

t.test(
  'cross references: a commit is shown once, whatever branches get it, also by a push of a branch',
  async (t) => {
    const own = await repository('pushed', { auto_init: true })
    const [target, sentinel] = [await own.open(), await own.open()]
    const work = await workTree(t, server.gitUrl('alice', 'alice/pushed'))
    await work.git('checkout', '-q', '-b', 'topic')
    const commit = await work.commit(`about #${target}`, { a: '1' })
    await work.git('push', '-q', 'origin', 'topic', 'topic:copy')
    await own.shows(target, 'commit_ref')
    await work.git('push', '-q', 'origin', 'topic:main')
    await work.commit(`then #${sentinel}`, { a: '2' })
    await work.git('push', '-q', 'origin', 'topic')
    await own.shows(sentinel, 'commit_ref')
    t.match((await own.timeline(target)).rows, [{ ref_commit_sha: commit }])
    t.same(await own.types(target), ['commit_ref'])
  },
)

t.test(
  "cross references: an edit of a title alone resolves its references with its editor's permissions, and leaves those of the body",
  async (t) => {
    const own = await repository('titles')
    const hidden = await repository('hidden-from-editors', { private: true })
    await alice.repos.repoAddCollaborator('alice', 'titles', 'bob', { permission: 'write' })
    const [target, secret] = [await own.open(), await hidden.open()]
    const names = `alice/hidden-from-editors#${secret}`
    const issue = await own.open({ body: names })
    await hidden.shows(secret, 'issue_ref')
    const ofBob = await own.open({ body: names }, bob)
    const edit = (index: number, option: { title?: string; body?: string }, who = alice) =>
      who.repos.issueEditIssue('alice', 'titles', index, option)
    await edit(issue, { title: `#${target}` }, bob)
    await own.shows(target, 'issue_ref')
    t.same(await hidden.types(secret), ['issue_ref'], 'what alice wrote stays, though bob may not read it')
    await edit(ofBob, { title: `#${target}` })
    await own.shows(target, 'issue_ref', 'issue_ref')
    t.same(await hidden.types(secret), ['issue_ref'], "what bob wrote does not get alice's rights")
    await edit(issue, { body: 'nothing' }, bob)
    await hidden.shows(secret)
    t.same(await own.types(target), ['issue_ref', 'issue_ref'], 'the title stays')
    await edit(issue, { body: `#${target}` }, bob)
    await edit(issue, { title: 'nothing' })
    await edit(ofBob, { title: 'nothing' })
    await own.shows(target, 'issue_ref')
  },
)

t.test(
  'cross references: redelivered events after later edits change nothing: the newest text counts',
  async (t) => {
    const own = await repository('repeated')
    const [first, target] = [await own.open(), await own.open()]
    const issue = await own.open({ body: `#${first}` })
    await own.shows(first, 'issue_ref')
    const comment = await own.say(issue, '#99')
    await alice.repos.issueEditComment('alice', 'repeated', comment, { body: `#${target}` })
    await own.shows(target, 'comment_ref')
    await alice.repos.issueEditIssue('alice', 'repeated', issue, { body: `#${target}` })
    await own.shows(target, 'comment_ref', 'issue_ref')
    const rows = await own.timeline(target)
    const texts: Recorded<DomainEvent>[] = []
    for await (const event of services.events.readStream(issueStream(own.repoId, issue)))
      texts.push(decode(event))
    // The batch is cut off at first: then the text of its last event must not be lost.
    for (const batch of [texts.slice(0, -1), texts]) {
      for (const event of batch) await references(services).react(event, contextOf(event))
      await services.projector.waitFor(await services.events.lastPosition(), 30_000)
      t.same(await own.timeline(target), rows)
    }
  },
)

t.test(
  'cross references: a redelivered event records nothing, nor does an event before the first start',
  async (t) => {
    const own = await repository('again')
    const target = await own.open()
    const comment = await own.say(await own.open(), `#${target}`)
    await own.shows(target, 'comment_ref')
    let event: Recorded<DomainEvent> | undefined
    let recorded = 0
    for await (const one of services.events.readAll()) {
      if (one.type === 'CommentAdded' && 'commentId' in one.data && one.data.commentId === comment)
        event = decode(one)
      if (one.type === 'ReferencesRecorded') recorded += 1
    }
    if (event === undefined) throw new Error('there is no comment')
    await references(services).react(event, contextOf(event))
    const at = new Date(Date.now() - 48 * 60 * 60 * 1000).toISOString()
    const old = {
      ...event,
      id: 'old',
      data: { ...event.data, body: 'nothing' },
      metadata: { ...event.metadata, at },
    }
    await references({ ...services, startedAfter: event.position }).react(decode(old), contextOf(event))
    let now = 0
    for await (const { type } of services.events.readAll()) if (type === 'ReferencesRecorded') now += 1
    t.equal(now, recorded)
    t.same(await own.types(target), ['comment_ref'])
  },
)
