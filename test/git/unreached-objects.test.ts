import t, { type Test } from 'tap'
import { firstUnreachable, tipsOf, unreachedAmong } from '../../src/git/commits/reachable.ts'
import { packet } from '../../src/git/http/pkt-line.ts'
import { resolveRef } from '../../src/git/refs/refs.ts'
import { commit, tryGit, userGit } from './client.ts'
import { idOf, packed, packOf } from './packs.ts'
import { serveRepository, serveWorkTree } from './served-repository.ts'

const NONE = '0'.repeat(40)
const PERSON = 'A <a@example.org> 1700000000 +0000'

/** A history of two commits; a third one, with an unreachable parent, was removed by force. */
async function removedHistory(t: Test) {
  const served = await serveRepository(t)
  const { dir } = served
  const first = await commit(dir, 'first', { f: '1' }, [])
  const second = await commit(dir, 'second', { f: '2' }, [first])
  const secret = await commit(dir, 'secret', { f: 'password' }, [second])
  const onSecret = await commit(dir, 'on secret', { f: '3' }, [secret])
  await userGit(dir, ['update-ref', 'refs/heads/main', second])
  await userGit(dir, ['tag', '-a', '-m', 'v1', 'v1', first])
  return { ...served, first, second, secret, onSecret }
}

async function ask(url: string, version: '0' | '2', body: Buffer): Promise<Buffer> {
  const answer = await fetch(`${url}/git-upload-pack`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-git-upload-pack-request',
      ...(version === '2' && { 'git-protocol': 'version=2' }),
    },
    body: new Uint8Array(body),
  })
  return Buffer.from(await answer.arrayBuffer())
}

const FLUSH = Buffer.from('0000')
const lines = (texts: string[]) => texts.map((text) => packet(`${text}\n`))

/** A fetch in version 2 of the protocol. */
const fetchV2 = (url: string, texts: string[]) =>
  ask(
    url,
    '2',
    Buffer.concat([
      packet('command=fetch\n'),
      packet('object-format=sha1'),
      Buffer.from('0001'),
      ...lines(texts),
      FLUSH,
    ]),
  )

/** A fetch in version 0: `texts` come before the first flush packet, `haves` after it. */
const fetchV0 = (url: string, texts: string[], haves: string[] = []) =>
  ask(url, '0', Buffer.concat([...lines(texts), FLUSH, ...lines([...haves, 'done'])]))

t.test('a fetch gets no history below an unreachable shallow commit', async (t) => {
  const { url, second, secret, onSecret } = await removedHistory(t)
  for (const id of [onSecret, onSecret.toUpperCase(), `${onSecret} x`]) {
    for (const depth of [
      '2147483647',
      '0x7fffffff',
      '017777777777',
      '6442450943',
      '+2147483647',
      ' 2147483647',
      '5',
    ]) {
      const asked = [`want ${second}`, `shallow ${id}`, `deepen ${depth}`]
      for (const answer of [
        await fetchV2(url, [...asked, 'done']),
        await fetchV0(url, asked),
        await fetchV2(url, [...asked, 'deepen-relative', 'done']),
      ]) {
        const text = answer.toString('latin1')
        t.notMatch(text, `unshallow ${onSecret}`, `${id} ${depth}`)
        t.notMatch(text, secret, `${id} ${depth}`)
      }
    }
  }
})

t.test('a fetch does not reveal unreachable objects of the repository', async (t) => {
  const { url, dir, first, second, secret, onSecret } = await removedHistory(t)
  const blob = await userGit(dir, ['rev-parse', `${secret}:f`])
  const tag = await userGit(dir, ['rev-parse', 'v1'])
  const haves = [first, onSecret, secret, blob, 'ab'.repeat(20), tag].map((id) => `have ${id}`)
  for (const answer of [
    await fetchV2(url, [`want ${second}`, ...haves]),
    await fetchV0(url, [`want ${second} multi_ack_detailed no-done`], haves),
  ]) {
    const text = answer.toString('latin1')
    t.match(text, `ACK ${first}`, 'what refs reach is known')
    t.match(text, `ACK ${tag}`, 'also a tag')
    for (const id of [onSecret, secret, blob]) t.notMatch(text, `ACK ${id}`)
  }
})

t.test("before a push, git gets the client's reachable commits", async (t) => {
  const { url, work, push, dir } = await serveWorkTree(t)
  const first = await commit(work, 'first', { f: '1' }, [])
  const removed = await commit(work, 'removed', { f: '2' }, [first])
  for (const tip of [removed, first]) await push('-f', 'origin', `${tip}:refs/heads/main`)
  t.equal((await tryGit(dir, ['cat-file', '-e', removed])).code, 0, 'the repository has it still')
  const second = await commit(work, 'second', { f: '3' }, [removed])
  const known = await userGit(work, ['fetch', '--negotiate-only', `--negotiation-tip=${second}`, url])
  t.equal(known, first)
})

t.test('no search runs for a disconnected client, not even for missing objects', async (t) => {
  const { dir } = await removedHistory(t)
  const tips = await tipsOf(dir)
  const signal = AbortSignal.abort(new Error('gone'))
  await t.rejects(unreachedAmong(dir, ['ab'.repeat(20)], tips, { signal }), { message: 'gone' })
  await t.rejects(firstUnreachable(dir, ['ab'.repeat(20)], tips, { signal }), { message: 'gone' })
})

t.test('a clone whose own commits are unreachable can fetch, also a shallow one', async (t) => {
  const { url, dir, root, second, onSecret } = await removedHistory(t)
  await userGit(dir, ['update-ref', 'refs/heads/main', onSecret])
  await userGit(root, ['clone', '-q', url, 'full'])
  await userGit(root, ['clone', '-q', '--depth=1', url, 'shallow'])
  const next = await commit(dir, 'next', { f: 'next' }, [second])
  await userGit(dir, ['update-ref', 'refs/heads/main', next])
  for (const version of ['0', '2']) {
    for (const [name, ...more] of [['full'], ['shallow', '--depth=2'], ['shallow', '--unshallow']]) {
      const work = `${root}/${name}-${version}-${more.length}${more}`
      await userGit(root, [
        'clone',
        '-q',
        '--no-local',
        `${root}/${name}`,
        work,
        ...(name === 'full' ? [] : ['--depth=1']),
      ])
      await userGit(work, ['-c', `protocol.version=${version}`, 'fetch', '-q', ...more, url, 'main'])
      t.equal(await userGit(work, ['rev-parse', 'FETCH_HEAD']), next)
      t.equal((await tryGit(work, ['rev-list', '--objects', 'FETCH_HEAD'])).code, 0)
    }
  }
})

const commitOf = (tree: string, ...parents: string[]) =>
  Buffer.from(
    `tree ${tree}\n${parents.map((id) => `parent ${id}\n`).join('')}author ${PERSON}\ncommitter ${PERSON}\n\nx\n`,
  )
const treeOf = (blob: string, name = 'a') =>
  Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, 'hex')])

/** Files, and the tree that has all of them: so many that git keeps their pack. */
function manyFiles() {
  const files = Array.from({ length: 12 }, (_, i) => Buffer.from(`file ${i}\n`))
  const tree = Buffer.concat(files.map((file, i) => treeOf(idOf('blob', file), String.fromCharCode(97 + i))))
  return { tree, objects: [...files.map((file) => packed(3, file)), packed(2, tree)] }
}

async function send(url: string, ref: string, tip: string, objects: Buffer[]): Promise<string> {
  const command = packet(`${NONE} ${tip} ${ref}\0report-status side-band-64k`)
  const answer = await fetch(`${url}/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    body: new Uint8Array(Buffer.concat([command, FLUSH, packOf(objects)])),
  })
  return Buffer.from(await answer.arrayBuffer()).toString('latin1')
}

for (const kind of ['small', 'indexed'] as const) {
  t.test(`a push with unreachable objects is refused (${kind} pack)`, async (t) => {
    const { url, dir, second, secret } = await removedHistory(t)
    const file = Buffer.from('hello\n')
    const small = {
      tree: treeOf(idOf('blob', file)),
      objects: [packed(3, file), packed(2, treeOf(idOf('blob', file)))],
    }
    const { tree, objects } = kind === 'small' ? small : manyFiles()
    const tip = commitOf(idOf('tree', tree), second)
    const tipId = idOf('commit', tip)
    const honest = [...objects, packed(1, tip)]
    const secretTree = await userGit(dir, ['rev-parse', `${secret}^{tree}`])
    const lost = Buffer.from('lost\n')
    const strays = {
      'a commit on what no ref reaches': [1, commitOf(secretTree, secret), 'commit'],
      'a commit on what a ref reaches': [1, commitOf(idOf('tree', tree), second, second), 'commit'],
      'a tree': [2, treeOf(idOf('blob', lost)), 'tree'],
      'a file': [3, lost, 'blob'],
    } as const
    for (const [what, [type, content, name]] of Object.entries(strays)) {
      const id = idOf(name, content)
      // git checks that the files of a tree are there.
      const more = what === 'a tree' ? [packed(3, lost)] : []
      const answer = await send(url, 'refs/heads/next', tipId, [...honest, packed(type, content), ...more])
      t.match(answer, /ng refs\/heads\/next the push brings [0-9a-f]{40}, and no branch or tag/, what)
      t.equal(await resolveRef(dir, 'refs/heads/next'), null)
      t.not((await tryGit(dir, ['cat-file', '-e', id])).code, 0, `${what} is not in the repository`)
    }
    t.match(await send(url, 'refs/heads/next', tipId, honest), /ok refs\/heads\/next/)
    const after = commitOf(idOf('tree', tree), tipId)
    const again = [...honest, packed(1, after)]
    t.match(
      await send(url, 'refs/heads/again', idOf('commit', after), again),
      /ok refs\/heads\/again/,
      'what the repository has may come once more',
    )
  })
}

t.test('pushes of git are accepted, whatever else their packs contain', async (t) => {
  const { work, dir, push } = await serveWorkTree(t, {
    check: async (commands) =>
      new Map(commands.filter(({ ref }) => ref.includes('/protected')).map(({ ref }) => [ref, 'protected'])),
  })
  const words = (of: string) => Array.from({ length: 300 }, (_, i) => `${of} ${i}\n`).join('')
  const files = (n: number) =>
    Object.fromEntries(Array.from({ length: n }, (_, i) => [`f${i}`, words(`${i}`)]))
  const pushed = async (...args: string[]) => {
    const { code, stderr } = await push(...args)
    t.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  }
  const first = await commit(work, 'first', files(20), [])
  await pushed('origin', `${first}:refs/heads/main`)
  const grown = await commit(work, 'grown', { ...files(19), f19: `${words('19')}more\n`, g: words('g') }, [
    first,
  ])
  await pushed('origin', `${grown}:refs/heads/main`)
  t.pass('a thin pack')
  await userGit(work, ['tag', '-a', '-m', 'v1', 'v1', first])
  await userGit(work, ['tag', '-a', '-m', 'v2', 'v2', 'v1'])
  await userGit(work, ['tag', '-a', '-m', 'a tree', 'tree', `${grown}^{tree}`])
  await userGit(work, ['tag', '-a', '-m', 'a file', 'file', `${grown}:g`])
  await pushed('origin', 'v1', 'v2', 'tree', 'file', `${first}:refs/heads/old`)
  t.pass('tags of what is there')

  // git sends objects of hidden refs, such as those of pull requests, again.
  const hidden = await commit(work, 'hidden', { ...files(20), h: words('h'), i: words('i') }, [first])
  await pushed('origin', `${hidden}:refs/heads/hidden`)
  await userGit(dir, ['update-ref', 'refs/pull/1/head', hidden])
  await pushed('origin', ':refs/heads/hidden')
  const onHidden = await commit(work, 'on hidden', { h: words('h'), i: words('i'), ...files(5) }, [hidden])
  await pushed('origin', `${onHidden}:refs/heads/topic`)
  await pushed('origin', `${hidden}:refs/heads/hidden`)

  // The pack also has the objects of the refused branch.
  for (const [count, name] of [
    [1, 'small'],
    [15, 'indexed'],
  ] as const) {
    const some = Object.fromEntries(
      Array.from({ length: count }, (_, i) => [`${name}${i}`, `${name} ${i}\n`]),
    )
    const mine = await commit(work, `${name} mine`, { ...some, own: name }, [grown])
    const refused = await commit(work, `${name} refused`, { ...some, other: name }, [grown])
    const deleted = name === 'small' ? [':refs/heads/old', ':refs/tags/file'] : []
    const { code, stderr } = await push(
      'origin',
      `${mine}:refs/heads/${name}`,
      `${refused}:refs/heads/protected-${name}`,
      ...deleted,
    )
    t.equal(code, 1)
    t.match(stderr, `protected-${name} (protected)`)
    t.equal(await resolveRef(dir, `refs/heads/${name}`), mine, stderr)
  }
  t.equal(await resolveRef(dir, 'refs/heads/old'), null)
  const { code, stderr } = await push('origin', `${onHidden}:refs/heads/protected`, ':refs/heads/topic')
  t.equal(code, 1)
  t.match(stderr, 'protected (protected)')
  t.equal(
    await resolveRef(dir, 'refs/heads/topic'),
    null,
    'a push that only deletes, but for what is refused',
  )
})
