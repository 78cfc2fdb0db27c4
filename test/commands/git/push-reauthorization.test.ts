/** A push is checked again before refs move. Each pack is half sent while a permission is removed. */
import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { pushBody } from '../../git/client.ts'
import { addToken, basic } from '../../server-template.ts'
import { until } from '../../until.ts'
import { eventsIn, type PullRepository, startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, bob, repository } = await startPulls(t)
const { services } = server

/** Number of requests admitted to a repository, by key: the first check of a push follows. */
const entered = new Map<string, number>()
const { findOne } = services.views.repositories
services.views.repositories.findOne = async (filter) => {
  const found = await findOne(filter)
  if (found !== undefined) entered.set(found.key, (entered.get(found.key) ?? 0) + 1)
  return found
}

interface HeldPush {
  /** A repository with its owner. */
  fullName: string
  body: Buffer
  authorization?: string
}

/** Sends the first half of a push, runs something, and sends the rest. */
async function pushAround(
  login: string,
  { fullName, body, authorization = basic(login) }: HeldPush,
  meanwhile: () => Promise<unknown>,
) {
  const before = entered.get(fullName) ?? 0
  const headers = { authorization, 'content-type': 'application/x-git-receive-pack-request' }
  const sent = request(`${server.url}/${fullName}.git/git-receive-pack`, { method: 'POST', headers })
  // A server may also close the connection.
  const answered = once(sent, 'response').catch(() => [])
  sent.write(body.subarray(0, body.length - 40))
  await until('the push is let in', async () => (entered.get(fullName) ?? 0) > before)
  await meanwhile()
  sent.end(body.subarray(body.length - 40))
  const [answer] = await answered
  if (answer === undefined) return { status: 0, text: 'the connection was closed' }
  let text = ''
  for await (const chunk of answer) text += chunk
  return { status: Number(answer.statusCode), text }
}

/** Returns the body of a push of a new branch. */
async function newBranch({ work, commit }: Pick<PullRepository, 'work' | 'commit'>, branch: string) {
  const sha = await commit(`Commit for ${branch}`, { [branch]: `${branch}\n` })
  return { sha, body: await pushBody(work.dir, `refs/heads/${branch}`, sha) }
}

/** A repository with carol as writer, and her push of the branch `topic`. */
async function withPush(t: Parameters<typeof repository>[0], name: string, options: object = {}) {
  const made = await repository(t, name, { writers: ['carol'], ...options })
  const { sha, body } = await newBranch(made, 'topic')
  const moves = async () => (await eventsIn(server, `git-${made.repoId}`)).length
  return { ...made, sha, moves, held: { fullName: `alice/${name}`, body } }
}

t.test('a push that pauses halfway and then completes is accepted', async (t) => {
  const { held, tip, sha } = await withPush(t, 'taken')
  const answer = await pushAround('carol', held, async () => undefined)
  t.match(answer, { status: 200, text: /ok refs\/heads\/topic/ })
  t.equal(await tip('topic'), sha)
})

t.test('a push is refused when access is revoked while its pack arrives', async (t) => {
  const { held, tip, moves, call } = await withPush(t, 'revoked')
  const before = await moves()
  const answer = await pushAround('carol', held, () => call('alice', 'DELETE', 'collaborators/carol'))
  t.match(answer, { status: 200, text: /ng refs\/heads\/topic you may not push to it/ })
  t.equal(await tip('topic'), undefined)
  t.equal(await moves(), before)
})

t.test('a push is refused when the repository becomes private while its pack arrives', async (t) => {
  const base = await repository(t, 'hidden', { writers: ['carol'] })
  const own = await base.fork('bob')
  const first = await own.branch('idea', { idea: 'x\n' })
  await base.open('bob:idea', {}, 'bob')
  await base.edit(1, { allow_maintainer_edit: true }, 'bob')
  const sha = await own.commit('By a maintainer', { more: 'x\n' })
  const created = (await pushBody(own.work.dir, 'refs/heads/idea', sha)).toString('latin1')
  const body = Buffer.from(created.replace('0'.repeat(40), first), 'latin1')
  const hide = () => bob.repos.repoEdit('bob', 'hidden', { private: true })
  const answer = await pushAround('carol', { fullName: 'bob/hidden', body }, hide)
  t.match(answer, { status: 200, text: /ng refs\/heads\/idea repository not found/ })
  t.equal(await own.tip('idea'), first)
})

t.test('a push is refused when its branch becomes protected while its pack arrives', async (t) => {
  const { held, tip, moves, protect } = await withPush(t, 'protected')
  const before = await moves()
  const answer = await pushAround('carol', held, () => protect('topic', { enable_push: false }))
  t.match(answer, { status: 200, text: /ng refs\/heads\/topic the branch is protected/ })
  t.equal(await tip('topic'), undefined)
  t.equal(await moves(), before)
})

t.test('a push is refused by a rule that git has not checked on its objects, too', async (t) => {
  const { held, tip, protect } = await withPush(t, 'stricter')
  const answer = await pushAround('carol', held, () =>
    protect('topic', { enable_push: true, require_signed_commits: true }),
  )
  t.match(answer, { status: 200, text: /ng refs\/heads\/topic the branch was protected during the push/ })
  t.equal(await tip('topic'), undefined)
})

t.test('a push is refused when its token is revoked while its pack arrives', async (t) => {
  const { held, tip, moves } = await withPush(t, 'token')
  const before = await moves()
  const token = await addToken(server.url, 'carol')
  const tokens = await services.views.tokens.find({})
  const made = tokens.find(({ lastEight }) => token.endsWith(lastEight))
  const path = `/api/v1/users/carol/tokens/${made?.id}`
  const answer = await pushAround('carol', { ...held, authorization: `token ${token}` }, async () =>
    t.equal((await server.fetch('carol', path, { method: 'DELETE' })).status, 204),
  )
  t.match(answer.text, /ng refs\/heads\/topic bad credentials|the connection was closed/)
  t.equal(await tip('topic'), undefined)
  t.equal(await moves(), before)
})

t.test('a push is refused when the repository is deleted while its pack arrives', async (t) => {
  const { held, moves } = await withPush(t, 'deleted')
  const before = await moves()
  const answer = await pushAround('carol', held, () => alice.repos.repoDelete('alice', 'deleted'))
  t.ok(answer.status === 404 || /ng refs\/heads\/topic/.test(answer.text), answer.text)
  t.equal(await moves(), before)
})
