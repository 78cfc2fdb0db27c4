// In a process of its own: its own programs are in PATH before the modules are loaded.
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { packet } from '../../../src/git/http/pkt-line.ts'
import { resolveRef } from '../../../src/git/refs/refs.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { initWork, userGit } from '../client.ts'
import { startGitServer } from '../git-server.ts'
import { deltaAdding, deltaCutting, idOf, packed, packOf } from '../packs.ts'

// A git that records each process of the server with its repository, without the processes that git itself starts.
const root = await mkdtemp(join(tmpdir(), 'mergelog-small-push-'))
const { stdout: gitPath } = await promisify(execFile)('/bin/sh', ['-c', 'command -v git'])
const diary = join(root, 'diary')
await mkdir(join(root, 'bin'))
await writeFile(
  join(root, 'bin', 'git'),
  `#!/bin/sh\necho "$GIT_DIR $*" >> ${diary}\nexec ${gitPath.trim()} "$@"\n`,
)
await chmod(join(root, 'bin', 'git'), 0o755)
process.env.PATH = `${join(root, 'bin')}:${process.env.PATH}`
const server = await startGitServer(root)
t.teardown(async () => {
  await server.close()
  await rm(root, { recursive: true, force: true })
})

const NONE = '0'.repeat(40)
const PERSON = 'A <a@example.org> 1700000000 +0000'
const words = (of: string) => Array.from({ length: 300 }, (_, i) => `${of} ${i}\n`).join('')

/** A repository with a history of two commits, and one unreachable commit. */
async function setUp(t: Test) {
  const key = t.name.replace(/\W/g, '').slice(0, 60)
  const dir = `${root}/${key}.git`
  const work = `${root}/${key}-work`
  await createRepository(dir, { defaultBranch: 'main' })
  await initWork(work)
  const git = (...args: string[]) => userGit(work, args)
  const commit = async (message: string, files: Record<string, string>) => {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(join(work, name, '..'), { recursive: true })
      await writeFile(join(work, name), content)
    }
    await git('add', '-A')
    await git('commit', '-q', '-m', message)
    return await git('rev-parse', 'HEAD')
  }
  await git('remote', 'add', 'origin', `${server.url}/${key}.git`)
  await commit('One', { 'a.txt': words('a'), 'deep/er/b.txt': words('b') })
  const main = await commit('Two', { 'deep/c.txt': words('c') })
  await git('push', '-q', 'origin', 'main')
  await git('checkout', '-q', '-b', 'secret')
  const secret = await commit('Secret', { 's.txt': words('secret'), 'longer.txt': `${words('secret')}!` })
  await git('push', '-q', 'origin', 'secret')
  await git('push', '-q', 'origin', ':secret')
  await git('checkout', '-q', 'main')

  /** Returns the names of the server's processes during some work, without the long-lived readers. */
  async function processesDuring(work: () => Promise<unknown>): Promise<string[]> {
    const from = (await readFile(diary, 'utf8')).length
    await work()
    const lines = (await readFile(diary, 'utf8')).slice(from).split('\n')
    const commands = lines.map((line) => line.replace(/^\S* /, ''))
    return commands.flatMap((line) =>
      line === '' || line.includes('--batch-command') ? [] : (line.split(' ')[0] ?? ''),
    )
  }

  /** Sends a pack to a new branch. */
  async function send(branch: string, tip: string, objects: Buffer[], lines: string[] = []): Promise<string> {
    const command = packet(`${NONE} ${tip} refs/heads/${branch}\0report-status side-band-64k`)
    const body = Buffer.concat([
      ...lines.map((line) => packet(line)),
      command,
      Buffer.from('0000'),
      packOf(objects),
    ])
    const answer = await fetch(`${server.url}/${key}.git/git-receive-pack`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-receive-pack-request' },
      body: new Uint8Array(body),
    })
    return Buffer.from(await answer.arrayBuffer()).toString('latin1')
  }
  return { dir, work, git, commit, main, secret, processesDuring, send }
}

const commitOf = (tree: string, ...parents: string[]) =>
  Buffer.from(
    `tree ${tree}\n${parents.map((id) => `parent ${id}\n`).join('')}author ${PERSON}\ncommitter ${PERSON}\n\nx\n`,
  )
const treeOf = (mode: string, name: string, id: string) =>
  Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')])

t.test('small pushes onto the tip of a branch start only the receiving process', async (t) => {
  const { dir, work, git, commit, processesDuring } = await setUp(t)
  const isPlain = async (...args: string[]) => {
    t.strictSame(await processesDuring(() => git('push', '-q', 'origin', ...args)), RECEIVE, args.join(' '))
  }
  // The client asks for the refs first.
  const RECEIVE = ['receive-pack', 'receive-pack']

  const changed = await commit('Changed', { 'deep/er/b.txt': `${words('b')}more\n` })
  await isPlain('main')
  t.equal(await resolveRef(dir, 'refs/heads/main'), changed)
  await commit('Three', { 'a.txt': `${words('a')}1\n` })
  await commit('Four', { 'a.txt': `${words('a')}2\n` })
  await isPlain('main')
  await rename(join(work, 'deep/c.txt'), join(work, 'deep/er/moved.txt'))
  await commit('Moved', {})
  await isPlain('main')
  await git('checkout', '-q', '-b', 'topic')
  await isPlain('topic')
  await commit('On a topic', { 'new/file.txt': 'new\n' })
  await isPlain('topic', 'topic:other')
  await git('checkout', '-q', 'main')
  await commit('On main', { 'a.txt': 'other\n' })
  await isPlain('main')
  await git('merge', '-q', '-m', 'Merged', 'topic')
  await git('push', '-q', 'origin', 'main')
  t.equal(await resolveRef(dir, 'refs/heads/main'), await git('rev-parse', 'main'))
  await git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},module`)
  await git('commit', '-q', '-m', 'A module')
  await isPlain('main')
  t.equal(await resolveRef(dir, 'refs/heads/main'), await git('rev-parse', 'main'))
})

t.test('pushes that are not onto the tip of a branch are walked, and accepted', async (t) => {
  const { dir, git, commit, main, processesDuring } = await setUp(t)
  await commit('Three', { 'a.txt': 'three\n' })
  await git('push', '-q', 'origin', 'main')
  await git('checkout', '-q', '-b', 'older', main)
  const older = await commit('On an older one', { 'a.txt': `${words('a')}older\n` })
  t.match((await processesDuring(() => git('push', '-q', 'origin', 'older'))).join(' '), 'rev-list')
  t.equal(await resolveRef(dir, 'refs/heads/older'), older)
})

t.test('line 11: small pushes do not revive unreachable objects', async (t) => {
  const { dir, git, main, secret, send, processesDuring } = await setUp(t)
  const blob = await git('rev-parse', `${secret}:s.txt`)
  const longer = await git('rev-parse', `${secret}:longer.txt`)
  const tree = await git('rev-parse', `${secret}^{tree}`)
  const mainTree = await git('rev-parse', `${main}^{tree}`)
  const size = Buffer.byteLength(words('secret'))

  // Any id is valid as that of a module. It names no object of this repository.
  const modules = Buffer.concat([
    treeOf('160000', 'a', blob),
    treeOf('160000', 'b', tree),
    treeOf('160000', 'c', secret),
  ])
  const withModules = commitOf(idOf('tree', modules), main)
  const onModules = idOf('commit', withModules)
  t.match(await send('modules', onModules, [packed(2, modules), packed(1, withModules)]), /ok refs/)
  await userGit(dir, ['update-ref', 'refs/heads/main', onModules])

  const attack = async (what: string, objects: Buffer[], tip: Buffer) => {
    let answer = ''
    const ran = await processesDuring(async () => {
      answer = await send('again', idOf('commit', tip), [...objects, packed(1, tip)])
    })
    t.match(answer, /ng refs\/heads\/again no branch or tag has [0-9a-f]{40}/, what)
    t.match(ran.join(' '), 'rev-list', `${what}: git has looked at it`)
    t.equal(await resolveRef(dir, 'refs/heads/again'), null)
  }
  await attack('a parent', [], commitOf(mainTree, secret))
  await attack('a second parent', [], commitOf(mainTree, onModules, secret))
  await attack('a tree', [], commitOf(tree, onModules))
  const file = treeOf('100644', 'a', blob)
  await attack('a file whose id a module has', [packed(2, file)], commitOf(idOf('tree', file), onModules))
  const inner = treeOf('40000', 'b', tree)
  await attack('a tree whose id a module has', [packed(2, inner)], commitOf(idOf('tree', inner), onModules))
  const grown = treeOf('100644', 'a', idOf('blob', Buffer.from(`${words('secret')}?`)))
  await attack(
    'what a delta builds on, whose id a module has',
    [packed(7, deltaAdding('?', size), blob), packed(2, grown)],
    commitOf(idOf('tree', grown), onModules),
  )
  const both = Buffer.concat([treeOf('100644', 'a', blob), treeOf('100644', 'b', longer)])
  await attack(
    'two deltas that build on each other',
    [packed(7, deltaCutting(size + 1), longer), packed(7, deltaAdding('!', size), blob), packed(2, both)],
    commitOf(idOf('tree', both), onModules),
  )

  // The same objects are accepted from a client that has them.
  const honest = commitOf(idOf('tree', both), onModules)
  const all = [
    packed(3, Buffer.from(words('secret'))),
    packed(7, deltaAdding('!', size), blob),
    packed(2, both),
    packed(1, honest),
  ]
  t.match(await send('again', idOf('commit', honest), all), /ok refs\/heads\/again/)
  t.equal(await resolveRef(dir, 'refs/heads/again'), idOf('commit', honest))
})
