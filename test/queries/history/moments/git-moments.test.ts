/** Trees, commits and files of past moments, compared with git and with the answers that the server gave then. */
import { execFile } from 'node:child_process'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { GIT_ENVIRONMENT, gitIn, type Test, workTree } from '../../../git-client.ts'
import { startTestServer, type TestServer } from '../../../start-server.ts'

const run = promisify(execFile)
const REPO = '/api/v1/repos/alice/app'

type Assertions = Pick<typeof t, 'equal' | 'same' | 'ok'>

interface Answer {
  status: number
  body: Buffer
}

/** A moment of the story: what git had, and what the server answered. */
interface Step {
  name: string
  position: number
  /** Object ids by full ref name. */
  refs: Map<string, string>
  head: string
  answers: Map<string, Answer>
}

async function get(server: TestServer, path: string): Promise<Answer> {
  const answer = await server.fetch('alice', path)
  return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()) }
}

async function must(server: TestServer, method: string, path: string, body?: object): Promise<void> {
  const answer = await server.fetch('alice', `${REPO}${path}`, {
    method,
    ...(body && { body: JSON.stringify(body) }),
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
}

/** Paths below the repository that name branches, tags and other refs. `first`: the id of the first commit. */
const pathsFor = (first: string) => [
  '',
  '/contents',
  '/contents/a.txt',
  '/contents/docs?ref=topic',
  '/contents/a.txt?ref=refs/heads/topic',
  '/contents/a.txt?ref=v1',
  '/contents/a.txt?ref=refs/pull/1/head',
  `/contents/a.txt?ref=${first}`,
  `/contents/a.txt?ref=${first.slice(0, 10)}`,
  '/contents-ext/a.txt?ref=topic&includes=file_content,commit_metadata',
  `/file-contents?ref=topic&body=${encodeURIComponent('{"files":["a.txt","pages/b.md"]}')}`,
  '/raw/a.txt',
  '/raw/a.txt?ref=topic',
  '/raw/topic/a.txt',
  '/media/a.txt?ref=v1',
  '/git/refs',
  '/git/refs/heads',
  '/git/refs/tags/v1',
  '/git/refs/notes',
  '/git/refs/pull',
  '/git/trees/main?recursive=true',
  '/git/trees/topic:docs',
  '/git/trees/v1',
  '/git/commits/main',
  '/git/commits/topic.diff',
  `/git/notes/${first}`,
  '/commits',
  '/commits?sha=topic&path=a.txt',
  '/commits?sha=topic&not=main',
  '/commits/topic/status',
  '/commits/topic/statuses',
  '/statuses/topic',
  '/commits/v1',
  '/compare/main...topic',
  '/compare/v1...main',
  '/archive/main.tar.gz',
  '/archive/topic.zip',
  '/archive/v1.tar.gz',
  '/branches',
  '/branches/main',
  '/branches/topic',
  '/tags',
  '/tags/v1',
  '/languages',
  '/issue_templates',
  '/issue_config',
  '/pulls/1/commits',
  '/pulls/1/files',
  '/pulls/1.diff',
]

/** Size and language of a repository are measured, and not of the past. A restarted server has another port. */
const ofThePast = ({ status, body }: Answer) => ({
  status,
  body: body.toString('latin1').replace(/"size":\d+,"language":"\w*"|127\.0\.0\.1:\d+/g, ''),
})

/** Makes a history in which branches and tags move by force, vanish and come again, and the default branch is renamed. */
async function tell(test: Test, server: TestServer) {
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name: 'app' })
  const dir = `${server.services.gitDir}/${data.id}.git`
  const work = await workTree(test)
  await work.git('remote', 'add', 'origin', server.gitUrl('alice', 'alice/app'))
  const push = (...refspecs: string[]) => work.git('push', '-q', '--force', 'origin', ...refspecs)
  const steps: Step[] = []
  let paths: string[] = []

  async function step(name: string): Promise<void> {
    const lines = (await gitIn(dir, ['for-each-ref', '--format=%(refname) %(objectname)'])).split('\n')
    const refs = new Map(lines.map((line): [string, string] => [line.slice(0, -41), line.slice(-40)]))
    const head = await gitIn(dir, ['symbolic-ref', 'HEAD'])
    const answers = new Map<string, Answer>()
    for (const path of paths) answers.set(path, await get(server, `${REPO}${path}`))
    steps.push({ name, position: await server.services.events.lastPosition(), refs, head, answers })
  }

  const first = await work.commit('First', { 'a.txt': 'one\n', 'code.ts': 'export const one = 1\n' })
  paths = pathsFor(first)
  await push('HEAD:refs/heads/main')
  await step('one branch')

  await work.git('checkout', '-q', '-b', 'topic')
  await run('mkdir', ['-p', join(work.dir, 'pages'), join(work.dir, '.gitea', 'issue_template')])
  const template = '---\nname: Bug\nabout: A bug\n---\nWhat happened?\n'
  await work.commit('Topic', {
    'a.txt': 'two\n',
    'pages/b.md': '# b\n',
    '.gitea/issue_template/bug.md': template,
  })
  await work.git('tag', '-a', '-m', 'Version one', 'v1')
  await work.git('notes', 'add', '-m', 'A note', first)
  await push('topic', 'v1', 'refs/notes/commits')
  await must(server, 'POST', '/pulls', { head: 'topic', base: 'main', title: 'Topic' })
  await must(server, 'POST', `/statuses/${await work.git('rev-parse', 'topic')}`, {
    context: 'build',
    state: 'success',
  })
  await step('a topic with a tag, a note and a pull request')

  await work.git('commit', '-q', '--amend', '-m', 'Topic, again')
  await push('topic')
  await step('the topic moved by force')

  await work.git('checkout', '-q', '-B', 'main', first)
  const forced = await work.commit('Forced', { 'a.txt': 'three\n' })
  await push('main', `${first}:refs/heads/other`)
  await work.git('notes', 'add', '-f', '-m', 'Another note', first)
  await push('refs/notes/commits')
  await step('main and the note moved')

  await work.git('tag', '-f', 'v1', forced)
  await push('v1', ':refs/heads/topic')
  await step('the tag moved, and the topic deleted')

  await work.git('checkout', '-q', '--orphan', 'fresh')
  await work.commit('Fresh', { 'c.txt': 'four\n' })
  await push('fresh:refs/heads/main', 'fresh:refs/heads/topic', ':refs/tags/v1')
  await step('main rewritten, the topic made again, and the tag deleted')

  await must(server, 'PATCH', '/branches/main', { name: 'trunk' })
  await must(server, 'DELETE', '/branches/other')
  await step('the default branch renamed')
  return { dir, steps, first }
}

function stepNamed(steps: readonly Step[], name: string): Step {
  const step = steps.find((one) => one.name === name)
  if (step === undefined) throw new Error(`there is no step ${name}`)
  return step
}

const at = (path: string, { position }: Step) =>
  `${REPO}${path}${path.includes('?') ? '&' : '?'}at=@${position}`

/** The tree of a commit as the API lists it. */
const listed = (body: Buffer) => {
  const { tree }: { tree: { mode: string; type: string; sha: string; path: string }[] } = JSON.parse(
    `${body}`,
  )
  return tree.map(({ mode, type, sha, path }) => `${mode} ${type} ${sha}\t${path}`).join('\n')
}

/** Compares the answers about each step with git, which still has its commits. */
async function compareWithGit(t: Assertions, server: TestServer, dir: string, steps: Step[]) {
  for (const step of steps) {
    const { body } = await get(server, at('/git/refs', step))
    const found: { ref: string; object: { sha: string } }[] = JSON.parse(`${body}`)
    t.same(
      found.map(({ ref, object }) => [ref, object.sha]),
      [...step.refs].filter(([ref]) => !ref.startsWith('refs/mergelog/')),
      `${step.name}: refs`,
    )
    const repository: { default_branch: string } = JSON.parse(`${(await get(server, at('', step))).body}`)
    t.equal(`refs/heads/${repository.default_branch}`, step.head)
    for (const [ref, sha] of step.refs) {
      if (!/^refs\/(heads|tags|pull)\//.test(ref)) continue
      const tree = await get(server, at(`/git/trees/${encodeURIComponent(ref)}?recursive=true`, step))
      t.equal(
        listed(tree.body),
        await gitIn(dir, ['ls-tree', '-r', '-t', sha]),
        `${step.name}: tree of ${ref}`,
      )
      const commits: { sha: string }[] = JSON.parse(
        `${(await get(server, at(`/commits?sha=${ref}`, step))).body}`,
      )
      const log = await gitIn(dir, ['log', '--format=%H', sha])
      t.equal(commits.map((one) => one.sha).join('\n'), log, `${step.name}: commits of ${ref}`)
      const archive = await get(server, at(`/archive/${ref}.tar.gz`, step))
      const args = ['archive', '--format=tar.gz', '--prefix=app/', `${sha}^{commit}`]
      const options = { cwd: dir, env: GIT_ENVIRONMENT, encoding: 'buffer', maxBuffer: 2 ** 24 } as const
      t.ok(archive.body.equals((await run('git', args, options)).stdout), `${step.name}: archive of ${ref}`)
    }
  }
}

async function compareWithAnswers(t: Assertions, server: TestServer, steps: Step[]) {
  for (const step of steps) {
    for (const [path, answer] of step.answers) {
      const past = await get(server, at(path, step))
      t.same(ofThePast(past), ofThePast(answer), `${step.name}: ${path}`)
    }
  }
}

/** Removes what no ref reaches, as an operator might. */
async function collect(dir: string): Promise<void> {
  await gitIn(dir, ['reflog', 'expire', '--expire=now', '--all'])
  await gitIn(dir, ['gc', '--quiet', '--prune=now'])
}

/** A server. `again` runs work on its data while it is stopped, and starts it at another place, where no cache knows it. */
async function restartable(test: Test, environment: Record<string, string> = {}) {
  const place = await mkdtemp(join(tmpdir(), 'mergelog-moments-'))
  test.teardown(() => rm(place, { recursive: true, force: true, maxRetries: 3 }))
  const start = (name: string) => startTestServer(test, { DATA_DIR: join(place, name), ...environment })
  const server = await start('first')
  return {
    server,
    async again(meanwhile: () => Promise<void>) {
      await server.stop()
      await meanwhile()
      await rename(join(place, 'first'), join(place, 'second'))
      return start('second')
    },
  }
}

t.test('trees, commits and archives of past moments equal those of git', async (t) => {
  const server = await startTestServer(t)
  const { dir, steps } = await tell(t, server)
  await t.test('forced, deleted and renamed branches, and moved tags', async (t) => {
    await compareWithGit(t, server, dir, steps)
  })
  await t.test('every read of git gives the answer that it gave at that moment', async (t) => {
    await compareWithAnswers(t, server, steps)
  })
})

t.test(
  'commits that git no longer has give 410 with the id; with KEEP_HISTORY_OBJECTS they stay',
  async (t) => {
    await t.test('410 after a forced push and git gc', async (t) => {
      const { server, again } = await restartable(t)
      const { dir, steps, first } = await tell(t, server)
      const restarted = await again(() => collect(dir))
      const step = stepNamed(steps, 'main and the note moved')
      const main = step.refs.get('refs/heads/main') ?? ''
      const v1 = step.refs.get('refs/tags/v1') ?? ''
      for (const [path, id] of [
        ['/contents', main],
        ['/contents/a.txt?ref=main', main],
        ['/contents-ext/a.txt', main],
        ['/file-contents?body={"files":["a.txt"]}', main],
        [`/contents/a.txt?ref=${main}`, main],
        ['/contents/a.txt?ref=v1', v1],
        ['/raw/a.txt', main],
        ['/raw/main/a.txt', main],
        ['/media/v1/a.txt', v1],
        ['/git/trees/main', main],
        ['/git/trees/v1', v1],
        [`/git/tags/${v1}`, v1],
        ['/git/commits/main', main],
        [`/git/commits/${main}`, main],
        ['/commits', main],
        ['/commits?sha=v1', v1],
        ['/commits/main.patch', main],
        ['/compare/main...other', main],
        ['/archive/main.zip', main],
        ['/tags/v1', v1],
        ['/languages', main],
        ['/issue_templates', main],
      ] as const) {
        const { status, body } = await get(restarted, at(path, step))
        t.equal(status, 410, path)
        t.match(JSON.parse(`${body}`), { code: 'gone', message: `git no longer has ${id}` }, path)
      }
      for (const path of ['', '/branches', '/branches/main', '/tags', '/git/refs', '/commits/topic/status']) {
        const { status } = await get(restarted, at(path, step))
        t.equal(status, 200, `${path} needs no objects`)
      }
      t.equal(
        (await get(restarted, at(`/contents/a.txt?ref=${first}`, step))).status,
        200,
        'reached by the pull request',
      )
      t.equal((await get(restarted, at('/contents/a.txt?ref=none', step))).status, 404)
      t.equal(
        (await get(restarted, at(`/git/commits/${'ab'.repeat(20)}`, step))).status,
        404,
        'was never there',
      )
      t.equal(
        (await get(restarted, `${REPO}/git/commits/${main}`)).status,
        404,
        'the present does not know it',
      )
    })

    await t.test('KEEP_HISTORY_OBJECTS: 200 for the same requests after git gc', async (t) => {
      const { server, again } = await restartable(t, { KEEP_HISTORY_OBJECTS: 'on' })
      const { dir, steps } = await tell(t, server)
      const restarted = await again(() => collect(dir))
      const moved = dir.replace(server.services.gitDir, restarted.services.gitDir)
      await compareWithGit(t, restarted, moved, steps)
      await compareWithAnswers(t, restarted, steps)
    })
  },
)

t.test('an id is served when a ref of the moment or of now reaches it', async (t) => {
  const server = await startTestServer(t)
  const { steps, first } = await tell(t, server)
  const before = stepNamed(steps, 'one branch')
  const forced = stepNamed(steps, 'main and the note moved')
  const now = stepNamed(steps, 'the default branch renamed')
  const old = forced.refs.get('refs/heads/main') ?? ''
  const fresh = now.refs.get('refs/heads/trunk') ?? ''
  t.equal((await get(server, at(`/git/commits/${old}`, forced))).status, 200, 'a ref of the moment')
  t.equal((await get(server, at(`/git/trees/${old}`, forced))).status, 200)
  t.equal((await get(server, at(`/git/commits/${fresh}`, before))).status, 200, 'a present ref')
  t.equal((await get(server, at(`/git/commits/${old}`, before))).status, 404, 'neither')
  t.equal((await get(server, `${REPO}/git/commits/${old}`)).status, 404, 'not now')
  t.equal((await get(server, `${REPO}/git/commits/${first}`)).status, 200)
})

t.test('a comparison with a fork has the branches of the fork at that moment', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const early = await server.services.events.lastPosition()
  const bob = await server.as('bob')
  await bob.repos.createFork('alice', 'app', {})
  const work = await workTree(t, server.gitUrl('bob', 'bob/app'))
  await work.commit('Of the fork', { 'b.txt': 'b\n' })
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/topic')
  const path = `${REPO}/compare/main...bob:topic`
  const then = await get(server, path)
  const position = await server.services.events.lastPosition()
  await work.git('commit', '-q', '--amend', '-m', 'Again')
  await work.git('push', '-q', '--force', 'origin', 'HEAD:refs/heads/topic')
  const head = (await get(server, `/api/v1/repos/bob/app/git/commits/topic?at=@${position}`)).body
  // The moment of a comparison is the last event of the base, so that one needs an event there.
  await must(server, 'POST', '/issues', { title: 'Later' })
  const later = await get(server, path)
  t.not(`${later.body}`, `${then.body}`)
  t.match(JSON.parse(`${later.body}`), { commits: [{ commit: { message: 'Again\n' } }] })
  t.match(JSON.parse(`${head}`), { commit: { message: 'Of the fork\n' } })
  t.equal((await get(server, `${path}?at=@${early}`)).status, 404, 'there was no fork')
})
