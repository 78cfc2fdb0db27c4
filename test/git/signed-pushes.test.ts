import { readdir, unlink } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { listRefs } from '../../src/git/refs/refs.ts'
import { commit, userGit } from './client.ts'
import { serveWorkTree } from './served-repository.ts'
import { makeKey, type TestKey } from './ssh-keys.ts'

const MAIN = 'refs/heads/main'

/** A server that requires commits on main and on release to be signed by Ann or by itself. */
async function setUp(t: Test) {
  const keys = t.testdir()
  const ann = await makeKey(`${keys}/ann`)
  const own = await makeKey(`${keys}/own`)
  const eve = await makeKey(`${keys}/eve`)
  const served = await serveWorkTree(t, {
    requireSigned: [MAIN, 'refs/heads/release'],
    allowedSigners: ann.signers,
    signingKey: own.path,
  })
  const { work } = served
  const push = (...args: string[]) => served.push('origin', ...args)
  const signed = async (key: TestKey, message: string, parents: string[]) => {
    const { path } = key
    const tree = await userGit(work, ['rev-parse', `${await commit(work, 'x', { f: message }, [])}^{tree}`])
    const config = ['-c', 'gpg.format=ssh', '-c', `user.signingkey=${path}`]
    const from = parents.flatMap((parent) => ['-p', parent])
    return await userGit(work, [...config, 'commit-tree', '-S', '-m', message, ...from, tree])
  }
  return { ...served, push, signed, ann, own, eve }
}

t.test("commits signed by a listed key or by the server's key are accepted", async (t) => {
  const { dir, push, signed, ann, own, server } = await setUp(t)
  const a = await signed(ann, 'a', [])
  const b = await signed(own, 'b', [a])
  t.match(await push(`${a}:${MAIN}`), { code: 0 })
  t.match(await push(`${b}:${MAIN}`), { code: 0 })
  t.same(await listRefs(dir), [{ ref: MAIN, sha: b }])
  t.same(
    server.recorded.map(({ to }) => to),
    [a, b],
  )
})

t.test('a commit without a good signature refuses its ref; the answer names the commit', async (t) => {
  const { root, dir, work, push, signed, ann, eve, server } = await setUp(t)
  const a = await signed(ann, 'a', [])
  const unsigned = await commit(work, 'unsigned', { f: 'u' }, [a])
  const later = await commit(work, 'later', { f: 'l' }, [unsigned])
  const tip = await signed(ann, 'tip', [later])
  const refs = [`${tip}:${MAIN}`, `${a}:refs/heads/free`]
  const refused = await push('--atomic', ...refs)
  t.equal(refused.code, 1)
  t.match(refused.stderr, `remote: ${MAIN} takes only commits that are signed by a trusted key`)
  t.match(refused.stderr, `commit ${unsigned} is not`)
  t.match(refused.stderr, /free \(pre-receive hook declined\)/)
  t.match(await push(`${await signed(eve, 'e', [a])}:${MAIN}`), { code: 1, stderr: /takes only commits/ })
  t.same(await listRefs(dir), [])
  t.same(server.recorded, [])
  t.same(await readdir(`${root}/pending`), [])
  t.same(await readdir(`${dir}/objects`), ['info', 'pack'], 'no object is kept')

  const some = await push(...refs)
  t.equal(some.code, 1)
  t.match(some.stderr, `commit ${unsigned} is not`)
  t.match(some.stderr, / main \(hook declined\)/)
  t.same(await listRefs(dir), [{ ref: 'refs/heads/free', sha: a }], 'the other ref has moved')
  t.match(server.recorded, [{ ref: 'refs/heads/free', to: a }])
})

t.test(
  'other branches accept every commit, but an unsigned commit cannot move on to a branch that requires signatures',
  async (t) => {
    const { dir, work, push, signed, ann } = await setUp(t)
    const a = await signed(ann, 'a', [])
    const unsigned = await commit(work, 'unsigned', { f: 'u' }, [a])
    t.match(await push(`${a}:${MAIN}`, `${unsigned}:refs/heads/main2`, `${unsigned}:refs/heads/x/main`), {
      code: 0,
    })
    t.match(await push(`${unsigned}:${MAIN}`), { code: 1, stderr: new RegExp(`commit ${unsigned} is not`) })
    const merge = await signed(ann, 'merge', [a, unsigned])
    t.match(await push(`${merge}:${MAIN}`), { code: 1, stderr: new RegExp(`commit ${unsigned} is not`) })
    t.same(
      (await listRefs(dir)).map(({ sha }) => sha),
      [a, unsigned, unsigned],
    )
  },
)

t.test('a new ref may have unsigned commits that the repository already has', async (t) => {
  const { dir, work, push, signed, ann } = await setUp(t)
  const old = await commit(work, 'from before the rule', { f: 'o' }, [])
  t.match(await push(`${old}:refs/heads/next`), { code: 0 })
  t.match(await push(`${await signed(ann, 'r', [old])}:refs/heads/release`), { code: 0 })
  t.match(await push('--delete', 'release'), { code: 0 })
  t.same(await listRefs(dir), [{ ref: 'refs/heads/next', sha: old }])
})

t.test('every push is refused when signatures cannot be checked', async (t) => {
  const { dir, push, signed, ann, server } = await setUp(t)
  const a = await signed(ann, 'a', [])
  await unlink(ann.signers)
  t.match(await push(`${a}:${MAIN}`), { code: 1, stderr: /500/ })
  t.equal(server.requests.at(-1)?.error, 'GitUnavailable')
  t.match(await push(`${a}:refs/heads/free`), { code: 0 })
  t.same(await listRefs(dir), [{ ref: 'refs/heads/free', sha: a }])
})
