import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rename, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import type { Test } from '../git-client.ts'
import { statusOf } from '../start-server.ts'

const { server, alice, repository } = await startPulls(t, { LOG_LEVEL: 'silent', GIT_DIFF_SLOTS: '4' })
const MORE_THAN_AT_ONCE = 5
const noise = (bytes: number) => randomBytes(bytes).toString('base64').replace(/.{60}/g, '$&\n')

/** A topic with every kind of change. main gets new commits and is merged into it. */
async function everyChange(t: Test, name: string) {
  const repo = await repository(t, name)
  const { work, commit } = repo
  const long = Array.from({ length: 30 }, (_, i) => `line ${i}\n`).join('')
  await commit('Start', {
    changed: long,
    'no newline': 'a\nb',
    renamed: long.replaceAll('line', 'Line'),
    mode: 'm\n',
    deleted: 'd\n',
    link: { link: 'changed' },
    binary: Buffer.from([0, 1, 2, 3]),
  })
  await work.git('checkout', '-q', '-b', 'topic')
  await rm(join(work.dir, 'deleted'))
  await work.git('mv', 'renamed', 'with space')
  await commit('First: ümläut\n\nA body.', {
    changed: long.replace('line 3', 'Line 3'),
    'no newline': 'a\nB',
    mode: { executable: 'm\n' },
    'odd "name"\n': 'odd\n',
  })
  await work.git('checkout', '-q', 'main')
  await commit('Main goes on', { main: 'm\n' })
  await work.git('checkout', '-q', 'topic')
  await work.git('merge', '-q', '--no-edit', 'main')
  await rm(join(work.dir, 'link'))
  await commit('Second', { 'with space': `${long.replaceAll('line', 'Line')}end`, link: { link: 'mode' } })
  await repo.push('main', 'topic')
  return { ...repo, index: await repo.open('topic') }
}

t.test('pulls.diff.1: git apply with .diff turns the merge base into the head', async (t) => {
  const { work, download, index } = await everyChange(t, 'apply')
  const answer = await download(`${index}.diff`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  await work.git('checkout', '-q', '--detach', await work.git('merge-base', 'main', 'topic'))
  await writeFile(join(work.dir, '.git/pull.diff'), await answer.text())
  await work.git('apply', '--index', '--whitespace=nowarn', '.git/pull.diff')
  t.equal(await work.git('write-tree'), await work.git('rev-parse', 'topic^{tree}'))
})

t.test('pulls.diff.2: with binary=true the diff also applies to binary files', async (t) => {
  const { work, commit, push, open, download } = await repository(t, 'binary')
  await commit('Start', { image: randomBytes(3000), gone: Buffer.from([0, 1]) })
  await work.git('checkout', '-q', '-b', 'topic')
  await rm(join(work.dir, 'gone'))
  await commit('Pictures', { image: randomBytes(3000), new: Buffer.from([0, 255]) })
  await push('main', 'topic')
  const index = await open('topic')
  await work.git('checkout', '-q', '--detach', 'main')
  const apply = async (query: string) => {
    await writeFile(join(work.dir, '.git/pull.diff'), await (await download(`${index}.diff${query}`)).text())
    await work.git('apply', '--index', '.git/pull.diff')
    const tree = await work.git('write-tree')
    await work.git('reset', '-q', '--hard')
    return tree
  }
  const expected = await work.git('rev-parse', 'topic^{tree}')
  for (const value of ['true', '1']) t.equal(await apply(`?binary=${value}`), expected, value)
  const plain = await (await download(`${index}.diff`)).text()
  t.match(plain, /Binary files .* differ/)
  for (const no of ['false', '0', '', 'maybe', '%00', 'TRUE%20']) {
    t.equal(await (await download(`${index}.diff?binary=${no}`)).text(), plain, `binary=${no} is a no`)
  }
  t.not((await download(`${index}.diff?binary=true&binary=false`)).status, 500)
})

t.test('pulls.diff.1: git am with .patch makes the same commits', async (t) => {
  const { work, download, index } = await everyChange(t, 'am')
  const answer = await download(`${index}.patch`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
  await work.git('checkout', '-q', '--detach', await work.git('merge-base', 'main', 'topic'))
  await writeFile(join(work.dir, '.git/pull.patch'), await answer.text())
  await work.git('am', '-q', '--keep-cr', '.git/pull.patch')
  t.equal(await work.git('rev-parse', 'HEAD^{tree}'), await work.git('rev-parse', 'topic^{tree}'))
  const commits = (range: string) => work.git('log', '--no-merges', '--format=%an %ae %aI%n%B', range)
  t.equal(await commits('main..HEAD'), await commits('main..topic'), 'messages and authors are the same')
})

t.test('a merged pull request keeps its diff and patch when its branches are gone', async (t) => {
  const { work, download, index, push } = await everyChange(t, 'merged')
  const before = await Promise.all(
    [`${index}.diff`, `${index}.patch`].map(async (p) => (await download(p)).text()),
  )
  await alice.repos.repoMergePullRequest('alice', 'merged', index, { Do: 'merge' })
  t.equal(await statusOf(alice.repos.repoDeleteBranch('alice', 'merged', 'topic')), 204)
  await work.git('checkout', '-q', '-B', 'main', 'origin/main')
  await work.git('pull', '-q')
  await work.commit('Later', { later: 'l' })
  await push('main')
  t.strictSame(
    await Promise.all([`${index}.diff`, `${index}.patch?x=1`].map(async (p) => (await download(p)).text())),
    before,
  )
})

t.test(
  'pulls.diff.1: another ending, or an unknown pull request, gives 404; other routes still work',
  async (t) => {
    const { download, commit, push, work, open } = await repository(t, 'paths', { private: true })
    await work.git('checkout', '-q', '-b', 'topic')
    await commit('x', { a: 'a\n' })
    await push('topic')
    await open('topic')
    for (const path of [
      '1.txt',
      '1.',
      '.diff',
      '1.diff.diff',
      '1.DIFF',
      '2.diff',
      '0.diff',
      '-1.diff',
      '01.diff',
      '1e0.diff',
      'x.patch',
      '9223372036854775808.diff',
      '1%00.diff',
    ]) {
      const answer = await download(path)
      t.equal(answer.status, 404, path)
      t.match(await answer.json(), { message: /./ })
    }
    t.equal((await download('1')).status, 200)
    t.equal((await download('1/merge')).status, 404)
    t.equal((await alice.repos.repoDownloadPullDiffOrPatch('alice', 'paths', 1, 'diff')).status, 200)
    const asked = (login: string | null) => server.fetch(login, '/api/v1/repos/alice/paths/pulls/1.diff')
    t.equal((await asked(null)).status, 404, 'the requester may not read the repository')
  },
)

t.test('an unchanged pair of commits is answered from the cache, or with 304', async (t) => {
  const { download, index, dir } = await everyChange(t, 'cached')
  const first = await download(`${index}.diff`)
  const text = await first.text()
  const tag = first.headers.get('etag') ?? ''
  t.match(tag, /^W\/"/)
  await rename(dir, `${dir}.away`)
  t.equal(await (await download(`${index}.diff`)).text(), text, 'it works after the repository is removed')
  for (const known of [tag, tag.slice(2), `"x", ${tag}`, '*']) {
    const again = await download(`${index}.diff`, { headers: { 'if-none-match': known } })
    t.equal(again.status, 304, known)
    t.equal(await again.text(), '')
  }
  const other = await download(`${index}.diff`, { headers: { 'if-none-match': '"x"' } })
  t.equal(other.status, 200)
  t.equal(
    (await download(`${index}.patch`, { headers: { 'if-none-match': tag } })).status,
    404,
    'this was never requested, so it is not in the cache',
  )
  t.equal((await download(`${index}.diff?binary=1`)).headers.get('etag'), null, 'an error has no tag')
})

t.test('missing objects give 404, and break off a stream that has begun', async (t) => {
  const { work, commit, push, open, download, objectFile } = await repository(t, 'gone')
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('Large', { a: noise(1e6), b: noise(1e6), z: 'last\n' })
  await work.git('checkout', '-q', '-b', 'small', 'main')
  await commit('Small', { z: 'last\n' })
  await push('topic', 'small')
  const large = await open('topic')
  const small = await open('small')
  t.ok((await (await download(`${large}.diff`)).text()).length > 2e6)
  await rm(objectFile(await work.git('rev-parse', 'topic:z')))
  for (const path of [`${small}.diff`, `${small}.patch`, `${large}.patch`]) {
    t.equal((await download(path)).status, 404, path)
  }
  const answer = await download(`${large}.diff`)
  t.equal(answer.status, 200, 'the beginning was sent')
  await t.rejects(answer.text(), 'the client sees that the end is missing')
})

t.test('git processes of clients that leave early are stopped', async (t) => {
  const { work, commit, push, open, download } = await repository(t, 'away')
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('Large', { a: noise(6e6) })
  await push('topic')
  const index = await open('topic')
  const address = `${server.url}/api/v1/repos/alice/away/pulls/${index}.diff`
  for (let i = 0; i < MORE_THAN_AT_ONCE; i++) {
    const asking = request(address, { agent: false }).end()
    const [answer] = await once(asking, 'response')
    t.equal(answer.statusCode, 200)
    asking.destroy()
  }
  t.ok((await (await download(`${index}.diff`)).text()).length > 6e6)
})
