import { join } from 'node:path'
import t from 'tap'
import { makeKey } from '../../git/ssh-keys.ts'
import type { WorkTree } from '../../git-client.ts'
import { temporaryDirectory } from '../../maintenance/backup/restored.ts'
import { startPulls } from './pull-repository.ts'

const directory = await temporaryDirectory(t)
const [serverKey, writerKey, strangerKey] = await Promise.all(
  ['server', 'writer', 'stranger'].map((name) => makeKey(join(directory, name))),
)
if (serverKey === undefined || writerKey === undefined || strangerKey === undefined)
  throw new Error('no keys')
const [signing, plain] = await Promise.all([
  startPulls(t, { SIGNING_KEY: serverKey.path, ALLOWED_SIGNERS: writerKey.signers }),
  startPulls(t),
])
const SIGNED = { require_signed_commits: true }

/** Rejects unless the commit has a good signature of the server's. */
const verify = (work: WorkTree, commit: string) =>
  work.git('-c', `gpg.ssh.allowedSignersFile=${serverKey.signers}`, 'verify-commit', commit)

async function signedCommit(work: WorkTree, key: string, branch: string, from: string): Promise<string> {
  await work.git('checkout', '-q', '-B', branch, from)
  const options = ['-c', 'gpg.format=ssh', '-c', `user.signingKey=${key}`]
  await work.git(...options, 'commit', '-q', '--allow-empty', '-S', '-m', 'Signed')
  await work.git('push', '-q', 'origin', branch)
  return work.git('rev-parse', 'HEAD')
}

for (const style of ['merge', 'squash', 'rebase', 'rebase-merge']) {
  t.test(`with a signing key all commits that ${style} makes are signed`, async (t) => {
    const { branch, open, merge, work, protect } = await signing.repository(t, style)
    const from = await work.git('rev-parse', 'main')
    await branch('topic', { a: 'a' })
    const head = await branch('topic', { b: 'b' }, 'topic')
    const main = await branch('main', { m: 'm' })
    // A merge would add the unsigned commits of the head.
    if (style !== 'merge') await protect('main', SIGNED)
    const index = await open('topic')
    t.equal((await merge(index, { Do: style })).status, 200, 'which is what the protection asks for')
    await work.git('fetch', '-q')
    const made = await work.git('rev-list', 'origin/main', `^${head}`, `^${main}`)
    t.equal(made.split('\n').length, { merge: 1, squash: 1, rebase: 2, 'rebase-merge': 3 }[style])
    for (const commit of made.split('\n')) await verify(work, commit)
    await t.rejects(verify(work, head), 'a check that can fail')

    await work.git('checkout', '-q', '-B', 'expected', main)
    await work.git('merge', '-q', '--no-edit', head)
    t.equal(await work.git('rev-parse', 'origin/main^{tree}'), await work.git('rev-parse', 'HEAD^{tree}'))
    t.equal(await work.git('merge-base', 'origin/main', from), from)
    t.equal(await work.git('fsck', '--strict', '--no-dangling', 'origin/main'), '')
  })
}

t.test('`commit.verification` of a branch tells whether its commit has a valid signature', async (t) => {
  const { branch, open, merge, work, call } = await signing.repository(t, 'verified')
  await branch('topic', { a: 'a' })
  const { body: unsigned } = await call(null, 'GET', 'branches/topic')
  t.match(unsigned.commit.verification, { verified: false, reason: 'gpg.error.not_signed_commit' })
  t.equal((await merge(await open('topic'), { Do: 'merge' })).status, 200)
  const { body: main } = await call(null, 'GET', 'branches/main')
  const signature = /^-----BEGIN SSH SIGNATURE-----/
  t.match(main.commit.verification, { verified: true, reason: '', signature, payload: /^tree / })
  await signedCommit(work, strangerKey.path, 'strange', 'main')
  const { body: strange } = await call(null, 'GET', 'branches/strange')
  t.match(strange.commit.verification, { verified: false, reason: 'gpg.error.no_gpg_keys_found', signature })
  const { body: list } = await call(null, 'GET', 'branches')
  const shown = list.map(({ commit }: { commit: { verification: object | null } }) => commit.verification)
  t.strictSame(shown, [null, null, unsigned.commit.verification], 'a list verifies no signatures')
})

t.test('merge.2: without a signing key a branch that requires signed commits gives 405', async (t) => {
  const { branch, open, merge, tip, protect } = await plain.repository(t, 'unsigned')
  await branch('topic', { a: 'a' })
  const index = await open('topic')
  await protect('main', SIGNED)
  const main = await tip('main')
  for (const Do of ['merge', 'squash', 'rebase', 'rebase-merge', 'fast-forward-only']) {
    const options = { Do, force_merge: true }
    t.match(await merge(index, options), { status: 405, message: /requires signed commits/ }, Do)
  }
  t.equal(await tip('main'), main)
})

t.test(
  'merge.2: require_signed_commits: unsigned commits of the head refuse a merge that would bring them in, in every style',
  async (t) => {
    const { branch, open, merge, protect, work, tip } = await signing.repository(t, 'brought-in')
    await branch('unsigned', { a: 'a' })
    await signedCommit(work, strangerKey.path, 'strange', 'main')
    await signedCommit(work, writerKey.path, 'late', 'unsigned')
    await signedCommit(work, writerKey.path, 'signed', 'main')
    await signedCommit(work, writerKey.path, 'next', 'main')
    await protect('main', SIGNED)
    const main = await tip('main')
    const indices = new Map<string, number>()
    for (const name of ['unsigned', 'strange', 'late']) {
      const index = await open(name)
      indices.set(name, index)
      for (const Do of ['merge', 'rebase', 'rebase-merge', 'fast-forward-only']) {
        const refused = await merge(index, { Do, force_merge: true })
        t.match(refused, { status: 405, message: /requires signed commits/ }, `${name} ${Do}`)
      }
      const scheduled = { Do: 'merge', merge_when_checks_succeed: true }
      t.equal((await merge(index, scheduled)).status, 405, `${name} scheduled`)
    }
    t.equal(await tip('main'), main)
    t.equal((await merge(await open('signed'))).status, 200, 'signed ones')
    await work.git('fetch', '-q')
    t.equal((await merge(indices.get('unsigned') ?? 0)).status, 405, 'a merge brings them in still')
    t.equal((await merge(indices.get('unsigned') ?? 0, { Do: 'squash' })).status, 200, 'a squash does not')
    t.equal((await merge(indices.get('strange') ?? 0, { Do: 'merge' })).status, 405)
    t.equal((await merge(await open('next'), { Do: 'rebase-merge' })).status, 200)
    await work.git('fetch', '-q')
    await verify(work, 'origin/main')
  },
)

t.test('merge.2: a merge without a new commit needs commits with trusted signatures', async (t) => {
  const { branch, open, merge, protect, work, tip } = await signing.repository(t, 'forward')
  await branch('unsigned', { a: 'a' })
  await signedCommit(work, strangerKey.path, 'strange', 'main')
  await signedCommit(work, writerKey.path, 'late', 'unsigned')
  const head = await signedCommit(work, writerKey.path, 'signed', 'main')
  await protect('main', SIGNED)
  for (const name of ['unsigned', 'strange', 'late']) {
    const index = await open(name)
    for (const Do of ['fast-forward-only', 'rebase']) {
      t.match(
        await merge(index, { Do }),
        { status: 405, message: /requires signed commits/ },
        `${name} ${Do}`,
      )
    }
  }
  t.equal((await merge(await open('signed'), { Do: 'fast-forward-only' })).status, 200)
  t.equal(await tip('main'), head)
  const next = await signedCommit(work, writerKey.path, 'next', head)
  t.equal((await merge(await open('next'), { Do: 'rebase' })).status, 200)
  t.equal(await tip('main'), next)
})
