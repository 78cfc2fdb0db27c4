import { mkdtemp, readdir } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { commitFacts } from '../../../src/git/commits/commits.ts'
import { MAX_REBASED_COMMITS, rebase } from '../../../src/git/merge/rebase.ts'
import { EMPTY_TREE } from '../../../src/git/refs/names.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { commit, initWork, tryGit, userGit } from '../client.ts'
import { makeKey } from '../ssh-keys.ts'

const bot = { name: 'Bot', email: 'bot@example.org', date: '2025-01-02T03:04:05+01:00' }

async function setUp(t: Test): Promise<string> {
  const dir = `${t.testdir()}/1.git`
  await createRepository(dir, { defaultBranch: 'main' })
  return dir
}

/** The result of `git rebase` for the same commits, in another work tree; undefined when it stops. */
async function realRebase(dir: string, base: string, head: string): Promise<string | undefined> {
  const work = await mkdtemp(`${dir}/../work-`)
  await initWork(work)
  await userGit(work, ['fetch', '-q', dir, base, head])
  await userGit(work, ['checkout', '-q', '--detach', head])
  const { code } = await tryGit(work, ['rebase', '-q', base])
  if (code !== 0) return undefined
  await userGit(work, ['push', '-q', dir, 'HEAD:refs/real/tip'])
  const tip = await userGit(work, ['rev-parse', 'HEAD'])
  await userGit(dir, ['update-ref', '-d', 'refs/real/tip'])
  return tip
}

/** The content of the new commits without committer and commit date. */
async function told(dir: string, base: string, tip: string): Promise<string> {
  const format = '--format=%T%n%an <%ae> %ad%n%B%x01'
  return await userGit(dir, ['log', '--date=raw', format, `${base}..${tip}`])
}

async function objects(dir: string): Promise<string[]> {
  return (await readdir(`${dir}/objects`, { recursive: true })).sort()
}

function rawCommit(dir: string, content: string | Buffer): Promise<string> {
  return userGit(dir, ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], content)
}

t.test('a rebase gives the result of git rebase', async (t) => {
  const dir = await setUp(t)
  const root = await commit(dir, 'root', { a: '1\n2\n3\n4\n5\n', b: 'b\n', 'old.c': 'c\nc\nc\nc\n' }, [])
  const base1 = await commit(dir, 'picked', { a: 'X\n2\n3\n4\n5\n', b: 'b\n', 'old.c': 'c\nc\nc\nc\n' }, [
    root,
  ])
  const base = await commit(dir, 'moves', { a: 'X\n2\n3\n4\n5\n', b: 'b\n', 'ü "new': 'c\nc\nc\nc\n' }, [
    base1,
  ])
  const one = await commit(
    dir,
    'picked elsewhere',
    { a: 'X\n2\n3\n4\n5\n', b: 'b\n', 'old.c': 'c\nc\nc\nc\n' },
    [root],
  )
  const two = await commit(
    dir,
    'at the end\n\nbody\n\n\n',
    { a: 'X\n2\n3\n4\nY\n', b: 'b\n', 'old.c': 'c\nc\nc\nc\n' },
    [one],
  )
  const three = await commit(
    dir,
    'in the moved file',
    { a: 'X\n2\n3\n4\nY\n', b: 'b\n', 'old.c': 'c\nc\nc\nc\nd\n' },
    [two],
  )
  const empty = await userGit(dir, ['commit-tree', `${three}^{tree}`, '-p', three, '-m', 'empty by will'])
  const side = await commit(dir, 'side', { a: '1\n2\n3\n4\n5\n', b: 'b\nside\n', 'old.c': 'c\nc\nc\nc\n' }, [
    root,
  ])
  const merge = await commit(
    dir,
    'merge',
    { a: 'X\n2\n3\n4\nY\n', b: 'b\nside\n', 'old.c': 'c\nc\nc\nc\nd\n' },
    [empty, side],
  )
  const last = await commit(
    dir,
    'last',
    { a: 'X\n2\n3\n4\nY\n', b: 'b\nside\nlast\n', 'old.c': 'c\nc\nc\nc\nd\n' },
    [merge],
  )

  const result = await rebase(dir, { base, head: last, committer: bot })
  t.match(result, { kind: 'clean' })
  if (result.kind !== 'clean') return
  t.equal(result.commits.at(-1), result.tip)
  t.same(
    (await userGit(dir, ['rev-list', '--reverse', `${base}..${result.tip}`])).split('\n'),
    result.commits,
  )
  const real = await realRebase(dir, base, last)
  t.equal(await told(dir, base, result.tip), await told(dir, base, real ?? ''))
  t.equal((await userGit(dir, ['log', '--format=%s', `${base}..${result.tip}`])).split('\n').length, 5)
  const facts = await commitFacts(dir, result.commits)
  t.ok(facts.values().every(({ committer }) => committer.name === 'Bot' && committer.date === bot.date))
  t.equal(await userGit(dir, ['show', `${result.tip}:ü "new`]), 'c\nc\nc\nc\nd')
  t.equal(await userGit(dir, ['fsck', '--strict', '--no-dangling']), '')
  t.same(
    await rebase(dir, { base, head: last, committer: bot }),
    result,
    'rebasing again gives the same commits',
  )
})

t.test('random histories give the results of git rebase, with and without conflicts', async (t) => {
  const dir = await setUp(t)
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * below)
  }
  const kinds = new Map<string, number>()
  for (let round = 0; round < 12; round++) {
    const first = { f: 'a\nb\nc\nd\ne\nf\ng\nh\n', g: '1\n2\n3\n4\n5\n6\n7\n8\n' }
    const root = await commit(dir, 'root', first, [])
    const tips: string[] = []
    for (const side of ['left', 'right']) {
      const files: Record<string, string> = { ...first }
      let tip = root
      for (let i = 0; i < 3; i++) {
        const name = Object.keys(files)[random(Object.keys(files).length)] ?? 'f'
        const lines = (files[name] ?? '').split('\n')
        if (random(6) === 0) {
          files[`${name}.moved`] = files[name] ?? ''
          delete files[name]
        } else {
          lines[random(lines.length)] = random(3) === 0 ? 'same' : `${side} ${round} ${i}`
          files[name] = lines.join('\n')
        }
        tip = await commit(dir, `${side} ${i}`, files, [tip])
      }
      tips.push(tip)
    }
    const [base = '', head = ''] = tips
    const result = await rebase(dir, { base, head, committer: bot })
    const real = await realRebase(dir, base, head)
    kinds.set(result.kind, (kinds.get(result.kind) ?? 0) + 1)
    if (result.kind === 'clean') t.equal(await told(dir, base, result.tip), await told(dir, base, real ?? ''))
    else t.same([result.kind, real], ['conflicts', undefined])
  }
  t.ok((kinds.get('clean') ?? 0) > 1 && (kinds.get('conflicts') ?? 0) > 1, 'both results occurred')
})

t.test(
  'commits that are already on the base stay, and a base that has all changes is the result',
  async (t) => {
    const dir = await setUp(t)
    const a = await commit(dir, 'a', { f: '1' }, [])
    const b = await commit(dir, 'b', { f: '2' }, [a])
    const c = await commit(dir, 'c', { f: '3' }, [b])
    const before = await objects(dir)
    t.same(await rebase(dir, { base: a, head: c, committer: bot }), {
      kind: 'clean',
      tip: c,
      commits: [b, c],
    })
    t.same(await rebase(dir, { base: c, head: a, committer: bot }), { kind: 'clean', tip: c, commits: [] })
    t.same(await rebase(dir, { base: c, head: c, committer: bot }), { kind: 'clean', tip: c, commits: [] })
    t.same(await objects(dir), before)

    const same = await commit(dir, 'the same as b', { f: '2' }, [a])
    const result = await rebase(dir, { base: c, head: same, committer: bot })
    t.same(result, { kind: 'clean', tip: c, commits: [] }, 'the base has the change already')
  },
)

t.test('a commit whose change has become empty is dropped', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n', g: '1\n' }, [])
  // The base makes the same two changes in two commits: no patch is equal, but no change is left.
  const base = await commit(dir, 'both', { f: '2\n', g: '2\n' }, [a])
  const one = await commit(dir, 'one', { f: '2\n', g: '1\n' }, [a])
  const two = await commit(dir, 'two', { f: '2\n', g: '2\n' }, [one])
  t.same(await rebase(dir, { base, head: two, committer: bot }), { kind: 'clean', tip: base, commits: [] })
})

t.test('a commit that does not apply is reported with its files, and nothing is stored', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n', 'ü ".txt': '1\n' }, [])
  const base = await commit(dir, 'base', { f: '1\n', 'ü ".txt': '2\n' }, [a])
  const fine = await commit(dir, 'fine', { f: '3\n', 'ü ".txt': '1\n' }, [a])
  const bad = await commit(dir, 'bad', { f: '3\n', 'ü ".txt': '4\n' }, [fine])
  const before = await objects(dir)
  t.same(await rebase(dir, { base, head: bad, committer: bot }), {
    kind: 'conflicts',
    commit: bad,
    files: ['ü ".txt'],
  })
  t.same(await objects(dir), before)
})

t.test('unrelated histories and too long series are not rebased', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1' }, [])
  const alone = await commit(dir, 'alone', { g: '1' }, [])
  t.same(await rebase(dir, { base: a, head: alone, committer: bot }), { kind: 'unrelated' })

  const n = MAX_REBASED_COMMITS + 1
  const stream = [`reset refs/heads/long\nfrom ${a}\n`]
  for (let i = 1; i <= n; i++) {
    stream.push(`commit refs/heads/long\ncommitter C <c@x> ${1_700_000_000 + i} +0000\ndata 1\nx\n`)
    stream.push(`M 100644 inline n${i}\ndata 1\n1\n`)
  }
  await userGit(dir, ['fast-import', '--quiet'], stream.join(''))
  const head = await userGit(dir, ['rev-parse', 'refs/heads/long'])
  const base = await commit(dir, 'base', { f: '2' }, [a])
  t.same(await rebase(dir, { base, head, committer: bot }), { kind: 'too-long', commits: n })
  const forty = await userGit(dir, ['rev-parse', `refs/heads/long~${n - 40}`])
  const result = await rebase(dir, { base, head: forty, committer: bot })
  t.match(result, { kind: 'clean', commits: { length: 40 } })
  if (result.kind === 'clean') {
    t.equal(await userGit(dir, ['rev-list', '--count', `${base}..${result.tip}`]), '40')
    t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
  }
  const missing = 'e'.repeat(40)
  await t.rejects(rebase(dir, { base, head: missing, committer: bot }), { name: 'GitFailed' })
  await t.rejects(rebase(dir, { base: 'main', head, committer: bot }), { name: 'InvalidGitArgument' })
})

t.test('a root commit in the series applies as in git rebase', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n' }, [])
  const base = await commit(dir, 'base', { f: '2\n' }, [a])
  const other = await commit(dir, 'other root', { other: '1\n' }, [])
  const head = await commit(dir, 'merge', { f: '1\n', other: '1\n' }, [a, other])
  const result = await rebase(dir, { base, head, committer: bot })
  const real = await realRebase(dir, base, head)
  t.match(result, { kind: 'clean', commits: { length: 1 } })
  if (result.kind === 'clean') t.equal(await told(dir, base, result.tip), await told(dir, base, real ?? ''))
})

t.test('author and message keep every byte and their encoding', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n' }, [])
  const base = await commit(dir, 'base', { f: '2\n' }, [a])
  const tree = await userGit(dir, [
    'rev-parse',
    `${await commit(dir, 'x', { f: '1\n', g: '1\n' }, [])}^{tree}`,
  ])
  const author = Buffer.from('author  J\xfcrgen  <j@x> 1700000000 -0845\n', 'latin1')
  const message = Buffer.from('gr\xfc\xdfe\n\n# no comment \n\n\nend', 'latin1')
  const head = await rawCommit(
    dir,
    Buffer.concat([
      Buffer.from(`tree ${tree}\nparent ${a}\n`),
      author,
      Buffer.from(
        'committer J <j@x> 1 +0000\ngpgsig -----BEGIN\n author no\n -----END\nencoding ISO-8859-1\n\n',
      ),
      message,
    ]),
  )
  const result = await rebase(dir, { base, head, committer: bot })
  if (result.kind !== 'clean') throw new Error(result.kind)
  t.notMatch(await userGit(dir, ['cat-file', 'commit', result.tip]), 'gpgsig')
  const facts = (await commitFacts(dir, [result.tip])).get(result.tip)
  t.match(facts, {
    author: { name: ' Jürgen ', date: '2023-11-14T13:28:20-08:45' },
    message: 'grüße\n\n# no comment \n\n\nend',
    parents: [base],
  })
  const foreign = await rebase(dir, { base, head, committer: { ...bot, name: 'Łukasz' } })
  if (foreign.kind !== 'clean') throw new Error(foreign.kind)
  t.match((await commitFacts(dir, [foreign.tip])).get(foreign.tip), {
    author: { name: ' Jürgen ' },
    committer: { name: 'Łukasz' },
    message: 'grüße\n\n# no comment \n\n\nend',
  })
})

t.test('a commit without an author, a message or these headers is rebased', async (t) => {
  const dir = await setUp(t)
  const a = await commit(dir, 'a', { f: '1\n' }, [])
  const base = await commit(dir, 'base', { f: '2\n' }, [a])
  const head = await rawCommit(dir, `tree ${EMPTY_TREE}\nparent ${a}\nauthor nobody\ncommitter <> 1 +0000\n`)
  t.match(await rebase(dir, { base: a, head, committer: bot }), { kind: 'clean', tip: head })
  t.same(await rebase(dir, { base, head, committer: bot }), { kind: 'conflicts', commit: head, files: ['f'] })
})

t.test('the new commits of a rebase are signed when a key is set', async (t) => {
  const dir = await setUp(t)
  const key = await makeKey(`${dir}/../key`)
  const a = await commit(dir, 'a', { f: '1\n' }, [])
  const base = await commit(dir, 'base', { f: '2\n' }, [a])
  const one = await commit(dir, 'one', { f: '1\n', g: '1' }, [a])
  const two = await commit(dir, 'two', { f: '1\n', g: '2' }, [one])
  const result = await rebase(dir, { base, head: two, committer: bot, signingKey: key.path })
  if (result.kind !== 'clean') throw new Error(result.kind)
  t.equal(result.commits.length, 2)
  for (const sha of result.commits) {
    const args = ['-c', `gpg.ssh.allowedSignersFile=${key.signers}`, 'verify-commit', '--raw', sha]
    t.match(await tryGit(dir, args), { code: 0, stderr: /Good "git" signature/ })
  }
  const before = await objects(dir)
  const broken = rebase(dir, {
    base,
    head: two,
    committer: { ...bot, name: 'B' },
    signingKey: '/nowhere/key',
  })
  await t.rejects(broken, { name: 'SigningFailed' })
  t.same(await objects(dir), before)
})
