import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { gitWithInput } from '../git-client.ts'

const { server, repository } = await startPulls(t)

t.test(
  'file names that are not UTF-8 are reachable by percent-encoded bytes in `contents`, `raw`, `git/trees` and diffs',
  async (t) => {
    const { work, push, open, call } = await repository(t, 'bytes')
    const commits = [
      'commit refs/heads/topic\ncommitter T <t@x> 1700000000 +0000\ndata 2\nx\nfrom refs/heads/main^0\n',
      'M 100644 inline caf\xe9.txt\ndata 4\none\n\nM 100644 inline d\xff/b\xe8.txt\ndata 4\ntwo\n\n',
      'M 100644 inline z.txt\ndata 2\nz\n\n',
    ]
    await gitWithInput(work.dir, ['fast-import', '--quiet'], Buffer.from(commits.join(''), 'latin1'))
    await push('topic')
    const head = await work.git('rev-parse', 'topic')
    const get = async (path: string) => (await call(null, 'GET', path)).body
    const text = async (url: string) => {
      const answer = await fetch(
        url.startsWith('http') ? url : `${server.url}/api/v1/repos/alice/bytes/${url}`,
      )
      return [answer.status, await answer.text()]
    }

    const file = await get('contents/caf%E9.txt?ref=topic')
    t.match(file, { type: 'file', content: Buffer.from('one\n').toString('base64'), last_commit_sha: head })
    t.match(file.url, /\/contents\/caf%E9\.txt\?ref=topic$/)
    t.strictSame(await get(file.url.split('/bytes/')[1]), file, 'its own URL leads to it')
    t.strictSame(await text(file.download_url), [200, 'one\n'])
    t.strictSame(await text(file.html_url), [200, 'one\n'], 'its page leads to it')
    t.strictSame(
      await get(`contents/${encodeURIComponent(file.path)}?ref=topic`),
      file,
      'and so does its path',
    )
    const listed = await get('contents?ref=topic')
    t.ok(listed.some(({ path }: { path: string }) => path === file.path))
    t.match(await get('contents/d%FF?ref=topic'), [{ url: /contents\/d%FF\/b%E8\.txt/ }])
    t.strictSame(await text('raw/d%ff/b%e8.txt?ref=topic'), [200, 'two\n'])
    t.strictSame(await text('media/caf%E9.txt?ref=topic'), [200, 'one\n'])
    t.equal((await text('raw/caf%E8.txt?ref=topic'))[0], 404, 'another byte')
    t.equal((await text('raw/caf%EF%BF%BD.txt?ref=topic'))[0], 404)
    t.match(await get('git/trees/topic:d%FF'), { tree: [{ type: 'blob' }] })
    const { tree } = await get('git/trees/topic?recursive=true')
    t.ok(tree.some(({ path }: { path: string }) => path === file.path))
    t.match(await get('commits?sha=topic&path=caf%E9.txt'), [{ sha: head }])

    const index = await open('topic')
    const files = await get(`pulls/${index}/files`)
    t.match(files, [{ filename: file.path, additions: 1 }, {}, { filename: 'z.txt' }])
    t.strictSame(await text(files[0].raw_url), [200, 'one\n'])
    t.match(await get(files[1].contents_url.split('/bytes/')[1]), { size: 4 })
    t.match(await get(`pulls/${index}/files?skip-to=d%FF/b%E8.txt`), [
      { additions: 1 },
      { filename: 'z.txt' },
    ])
    t.strictSame(await get(`pulls/${index}/files?skip-to=%E1`), [])
    const [commit] = await get(`pulls/${index}/commits`)
    t.equal(commit.files[0].filename, file.path)
  },
)
