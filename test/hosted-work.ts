/**
 * A work tree of a repository on a test server, for tests of reactions to branches. It shares the server's objects, and
 * its branches reach the server through a push's code, but without clone, pack and HTTP. Pushes themselves are tested
 * with `workTree` and the URL.
 */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withRefLock } from '../src/commands/git/ref-lock.ts'
import { recordAndMoveHeads } from '../src/commands/pull-requests/branches/move-heads.ts'
import { listRefs, type RefChange, resolveRef, updateRefs } from '../src/git/refs/refs.ts'
import { type Content, writeContents } from './commands/pull-requests/contents.ts'
import { GIT_ENVIRONMENT, gitIn, gitWithInput, type Test, type WorkTree } from './git-client.ts'
import type { TestServer } from './start-server.ts'
import { aContext } from './stores.ts'

/** The user and repository of the work tree. */
export interface Hosted {
  login: string
  repoId: number
  fullName: string
}

const HEADS = 'refs/heads/'

/** Commands that need no files: they work although the checked-out files may be older than `HEAD`. */
const WITHOUT_FILES = new Set([
  'cat-file',
  'config',
  'fetch',
  'for-each-ref',
  'fsck',
  'log',
  'ls-remote',
  'ls-tree',
  'merge-base',
  'push',
  'rev-list',
  'rev-parse',
  'show',
  'tag',
  '--git-dir',
])

/** Formats a commit for `git fast-import`; `from` is any name of a commit. */
function commitStream(
  branch: string,
  from: string,
  message: string,
  files: Record<string, Content>,
): (string | Buffer)[] {
  const data = (content: string | Buffer) => [`data ${Buffer.byteLength(content)}\n`, content, '\n']
  const file = ([name, content]: [string, Content]) => {
    const path = `"${name.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`
    if (typeof content === 'string' || Buffer.isBuffer(content)) {
      return [`M 100644 inline ${path}\n`, ...data(content)]
    }
    return 'link' in content
      ? [`M 120000 inline ${path}\n`, ...data(content.link)]
      : [`M 100755 inline ${path}\n`, ...data(content.executable)]
  }
  const { GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email } = GIT_ENVIRONMENT
  return [
    `commit ${HEADS}${branch}\nmark :1\n`,
    `committer ${name} <${email}> ${Math.floor(Date.now() / 1000)} +0000\n`,
    ...data(`${message}\n`),
    `from ${from}^0\n`,
    ...Object.entries(files).flatMap(file),
    'get-mark :1\n',
  ]
}

/** Creates commits and branches in one process; resolves to the ids of the commits. */
async function fastImport(dir: string, stream: readonly (string | Buffer)[]): Promise<string[]> {
  const args = ['-c', 'core.fsync=none', 'fast-import', '--quiet', '--force']
  const input = Buffer.concat(stream.map((part) => Buffer.from(part)))
  return (await gitWithInput(dir, args, input)).split('\n')
}

/** Creates the result of `git clone`, without files. Resolves to the directory. */
async function emptyClone(server: TestServer, { login, fullName }: Hosted, bare: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-work-'))
  const gitDir = join(dir, '.git')
  await mkdir(join(gitDir, 'refs', 'heads'), { recursive: true })
  const refs = await listRefs(bare, HEADS)
  const packed = refs.flatMap(({ ref, sha }) => {
    const remote = `${sha} refs/remotes/origin/${ref.slice(HEADS.length)}\n`
    return ref === `${HEADS}main` ? [`${sha} ${ref}\n`, remote] : [remote]
  })
  const config = `[core]
\trepositoryformatversion = 0
[gc]
\tauto = 0
[maintenance]
\tauto = false
[remote "origin"]
\turl = ${bare}
\tpushurl = ${server.gitUrl(login, fullName)}
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
`
  await Promise.all([
    symlink(join(bare, 'objects'), join(gitDir, 'objects')),
    writeFile(join(gitDir, 'HEAD'), `ref: ${HEADS}main\n`),
    writeFile(join(gitDir, 'config'), config),
    writeFile(join(gitDir, 'packed-refs'), packed.join('')),
  ])
  return dir
}

/** A work tree of `main`; deleted when the test ends. */
export async function hostedWork(test: Test, server: TestServer, hosted: Hosted) {
  const { login, repoId } = hosted
  const bare = `${server.services.gitDir}/${repoId}.git`
  const dir = await emptyClone(server, hosted, bare)
  test.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  /** Whether the files are those of `HEAD`. */
  let current = false

  async function checkedOut(): Promise<void> {
    if (current) return
    current = true
    await gitIn(dir, ['reset', '-q', '--hard'])
  }

  const work: WorkTree = {
    dir,
    async git(...args) {
      if (!WITHOUT_FILES.has(args[0] ?? '')) await checkedOut()
      return gitIn(dir, args)
    },
    async gitWith(environment, ...args) {
      await checkedOut()
      return gitIn(dir, args, environment)
    },
    commit: (message, files) => commit(message, files),
  }

  async function commit(message: string, files: Record<string, Content> = {}): Promise<string> {
    await checkedOut()
    await writeContents(dir, files)
    await gitIn(dir, ['add', '-A'])
    await gitIn(dir, ['commit', '-q', '--allow-empty', '-m', message])
    return gitIn(dir, ['rev-parse', 'HEAD'])
  }

  /** Moves refs of the server, and records them as after a push. */
  async function moveRefs(wanted: ReadonlyMap<string, string | null>): Promise<void> {
    const { services } = server
    const account = await services.views.accounts.findOne({ loginKey: login })
    if (account === undefined) throw new Error(`there is no ${login}`)
    const context = aContext({ actor: { id: account.id, login } })
    await withRefLock(services, repoId, async (since) => {
      const before = new Map((await listRefs(bare)).map(({ ref, sha }) => [ref, sha]))
      const changes = [...wanted]
        .map(([ref, to]): RefChange => ({ ref, from: before.get(ref) ?? null, to }))
        .filter(({ from, to }) => from !== to)
      const outcome = await updateRefs(bare, changes)
      if (outcome !== 'moved') throw new Error(`the refs did not move: ${outcome}`)
      await recordAndMoveHeads(services, context, repoId, 'push', changes, since)
    })
    for (const [ref, to] of wanted) {
      if (!ref.startsWith(HEADS)) continue
      const remote = `refs/remotes/origin/${ref.slice(HEADS.length)}`
      if (to === null) await gitIn(dir, ['update-ref', '-d', remote])
      else {
        const file = join(dir, '.git', remote)
        await mkdir(join(file, '..'), { recursive: true })
        await writeFile(file, `${to}\n`)
      }
    }
  }

  /** The targets of a push's refspecs: `topic`, `topic:other`, `:gone`, each with or without `+`. */
  async function targets(refspecs: readonly string[]): Promise<Map<string, string | null>> {
    const pairs = refspecs.map((refspec) => {
      const [source = '', target = source] = refspec.replace(/^\+/, '').split(':')
      return { source, ref: target.startsWith('refs/') ? target : `${HEADS}${target}` }
    })
    const sources = pairs.map(({ source }) => source).filter((source) => source !== '')
    const shas = sources.length === 0 ? [] : (await gitIn(dir, ['rev-parse', ...sources])).split('\n')
    return new Map(pairs.map(({ source, ref }) => [ref, source === '' ? null : (shas.shift() ?? null)]))
  }

  /** Creates a branch of one commit after another commit, and checks it out. */
  async function branchAt(name: string, from: string, message: string, files: Record<string, Content>) {
    const [tip = ''] = await fastImport(dir, commitStream(name, from, message, files))
    await writeFile(join(dir, '.git', 'HEAD'), `ref: ${HEADS}${name}\n`)
    current = false
    return tip
  }

  return {
    work,
    /** Commits the current files and these; resolves to the commit's id. */
    commit,
    /** Sends branches to the server, with `force` if needed. */
    push: async (...refspecs: string[]) => moveRefs(await targets(refspecs)),
    /** Sends a branch with one commit more than `from`; resolves to its tip. */
    async branch(name: string, files: Record<string, Content>, from = 'main') {
      const tip = await branchAt(name, from, `Commit on ${name}`, files)
      await moveRefs(new Map([[`${HEADS}${name}`, tip]]))
      return tip
    },
    /** Sends several branches from main, each with a file of its own name; resolves to the last one's tip. */
    async branches(...names: string[]) {
      const stream = names.flatMap((name) =>
        commitStream(name, 'main', `Commit on ${name}`, { [name.replaceAll('/', '-')]: `${name}\n` }),
      )
      const tips = await fastImport(dir, stream)
      await moveRefs(new Map(names.map((name, i) => [`${HEADS}${name}`, tips[i] ?? null])))
      return tips.at(-1) ?? ''
    },
    /** The server's commit of a branch, or of another ref by its full name. */
    async tip(ref: string): Promise<string | undefined> {
      return (await resolveRef(bare, ref.startsWith('refs/') ? ref : `${HEADS}${ref}`)) ?? undefined
    },
  }
}
