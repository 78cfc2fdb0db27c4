import { randomBytes } from 'node:crypto'
import { rename, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { type DiffTextOptions, diffText } from '../../../src/git/diff/diff.ts'
import { until } from '../../until.ts'
import { commit, userGit } from '../client.ts'

const noise = (bytes: number) => randomBytes(bytes).toString('base64').replace(/.{60}/g, '$&\n')

async function setUp(t: Test) {
  const dir = `${t.testdir()}/1.git`
  await userGit('/', ['init', '-q', '--bare', dir])
  return dir
}

async function streamOf(answer: Promise<Buffer | Readable>): Promise<Readable> {
  const text = await answer
  if (!(text instanceof Readable)) throw new Error(`held whole: ${text.length} bytes`)
  return text
}

const kinds: DiffTextOptions[] = [
  { kind: 'diff', binary: false },
  { kind: 'diff', binary: true },
  { kind: 'patch', binary: false },
]

t.test('a small diff is buffered, and cached for the second time', async (t) => {
  const dir = await setUp(t)
  const from = await commit(dir, 'from', { a: '1\n' }, [])
  const to = await commit(dir, 'to', { a: '2\n', b: '\0' }, [from])
  const first = await Promise.all(kinds.map((options) => diffText(dir, from, to, options)))
  t.match(`${first[0]}`, /^diff --git a\/a b\/a\nindex [0-9a-f]{40}\.\.[0-9a-f]{40} 100644\n/)
  t.match(`${first[0]}`, /Binary files \/dev\/null and b\/b differ/)
  t.match(`${first[1]}`, /GIT binary patch/)
  t.match(
    `${first[2]}`,
    /^From [0-9a-f]{40} .*\nFrom: Ann Author <ann@example.org>\n.*\nSubject: \[PATCH\] to\n/,
  )
  t.equal(`${await diffText(dir, to, to, { kind: 'diff', binary: false })}`, '')
  await rename(dir, `${dir}.away`)
  for (const [i, options] of kinds.entries()) t.equal(await diffText(dir, from, to, options), first[i])
  await t.rejects(diffText(dir, to, from, { kind: 'diff', binary: false }), { name: 'RepositoryMissing' })
})

t.test('a cached diff retains no other memory', async (t) => {
  const dir = await setUp(t)
  const to = await commit(dir, 'to', { a: '2\n' }, [])
  const text = await diffText(dir, null, to, { kind: 'diff', binary: false })
  t.ok(Buffer.isBuffer(text) && text.length < 4096 && text.buffer.byteLength === text.length)
})

t.test('a large difference is streamed from git', async (t) => {
  const dir = await setUp(t)
  const from = await commit(dir, 'from', { a: '1\n' }, [])
  const to = await commit(dir, 'to', { a: noise(3e6), b: noise(3e6) }, [from])
  const stream = await streamOf(diffText(dir, from, to, { kind: 'diff', binary: false }))
  const expected = await userGit(dir, ['diff', '--full-index', from, to])
  t.equal((await buffer(stream)).toString().trimEnd(), expected)
})

t.test(
  'an unreadable diff is an error before the first byte, or ends the stream with an error',
  async (t) => {
    const dir = await setUp(t)
    const from = await commit(dir, 'from', { a: '1\n' }, [])
    const to = await commit(dir, 'to', { a: noise(3e6), b: noise(3e6), c: 'last\n' }, [from])
    const small = await commit(dir, 'small', { c: 'last\n' }, [from])
    const blob = await userGit(dir, ['rev-parse', `${to}:c`])
    await rm(`${dir}/objects/${blob.slice(0, 2)}/${blob.slice(2)}`)
    for (const options of kinds) {
      await t.rejects(diffText(dir, from, small, options), { name: 'GitFailed' })
      await t.rejects(diffText(dir, from, 'ab'.repeat(20), options), { name: 'GitFailed' })
      const all = async () => buffer(await streamOf(diffText(dir, from, to, options)))
      await t.rejects(all(), { name: 'GitFailed' })
    }
    await t.rejects(diffText(dir, '--output=x', to, { kind: 'diff', binary: false }), {
      name: 'InvalidGitArgument',
    })
  },
)

t.test('git is ended when its reader disconnects or the signal is aborted', async (t) => {
  const dir = await setUp(t)
  const from = await commit(dir, 'from', { a: '1\n' }, [])
  const to = await commit(dir, 'to', { a: noise(3e6), b: noise(3e6) }, [from])
  const options = { kind: 'diff', binary: false } as const
  const aborted = new AbortController()
  aborted.abort()
  await t.rejects(diffText(dir, from, to, { ...options, signal: aborted.signal }), { name: 'AbortError' })

  // More than may run at the same time.
  for (let i = 0; i < Math.max(16, 8 * availableParallelism()) + 1; i++) {
    const stream = await streamOf(diffText(dir, from, to, options))
    if (i % 2 === 0) stream.destroy()
    else for await (const _ of stream) break
  }
  const gone = new AbortController()
  const stream = await streamOf(diffText(dir, from, to, { ...options, signal: gone.signal }))
  gone.abort()
  await t.rejects(buffer(stream), { name: 'AbortError' })
  await until('the stream is closed', async () => stream.closed)
})
