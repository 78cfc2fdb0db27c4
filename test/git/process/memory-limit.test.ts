// In a process of its own: PATH has no `prlimit` when the modules are loaded.
/** The memory limit of git on a machine without `prlimit`: then `sh` sets it. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { access, symlink } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { deflateSync } from 'node:zlib'
import t from 'tap'
import { program } from '../../program.ts'

/** The first place of a program in PATH. */
async function placeOf(program: string): Promise<string> {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const place = join(directory, program)
    if (
      await access(place).then(
        () => true,
        () => false,
      )
    )
      return place
  }
  throw new Error(`there is no ${program}`)
}

// The directory is the whole PATH from now on. The module reads it when it is loaded.
const bin = t.testdir()
for (const program of ['git', 'sh', 'sleep']) await symlink(await placeOf(program), join(bin, program))
process.env.PATH = bin
const { limitGitMemory, withMemoryLimit } = await import('../../../src/git/process/memory-limit.ts')
const { git, gitOutput } = await import('../../../src/git/process/run.ts')

const MEBIBYTE = 1024 ** 2

t.test('without prlimit, sh sets the limit and becomes git', async (t) => {
  limitGitMemory(64 * MEBIBYTE)
  const [program, args] = withMemoryLimit('git', ['cat-file', '--batch'])
  t.equal(program, 'sh')
  t.same(args.slice(-4), [String(64 * 1024), 'git', 'cat-file', '--batch'])
  t.same(withMemoryLimit('git', ['update-ref', 'x']), ['git', ['update-ref', 'x']], 'this reads no objects')
  t.same(withMemoryLimit('ssh-keygen', ['-Y']), ['ssh-keygen', ['-Y']])
})

t.test('without prlimit, no text of a client becomes a command of sh', async (t) => {
  const place = join(t.testdir(), 'pwned')
  const texts = [
    `$(touch ${place})`,
    `; touch ${place} #`,
    `\`touch ${place}\``,
    'a \'b\' "c"',
    '-c',
    '',
    '*',
    '\n',
  ]
  const quoted = (await gitOutput(['rev-parse', '--sq-quote', ...texts])).toString()
  t.equal(quoted, `${texts.map((text) => ` '${text.replaceAll("'", "'\\''")}'`).join('')}\n`)
  t.notOk(existsSync(place))
})

t.test('without prlimit, git above its memory limit is refused, and other commands are not', async (t) => {
  const dir = t.testdir()
  await git(['init', '-q', '--bare', dir])
  const blob = (await gitOutput(['hash-object', '-w', '--stdin'], { dir, input: 'hello' })).toString().trim()
  t.equal((await gitOutput(['cat-file', 'blob', blob], { dir })).toString(), 'hello')
  // A tree of 100 MB that takes 100 KB: git holds trees in memory.
  const pack = packOf(deflateSync(Buffer.alloc(100 * MEBIBYTE)), 100 * MEBIBYTE)
  await t.rejects(gitOutput(['unpack-objects', '-q'], { dir, input: pack }), {
    name: 'GitOutputTooLarge',
    message: 'git needs more memory than it may have',
  })
})

t.test('git never gets a higher limit than the server itself: it would not start', async (t) => {
  const mine = 3_000_000
  const limited = ['-c', 'unset NODE_OPTIONS; ulimit -d "$1" && shift && exec "$@"', 'sh', `${mine}`]
  const node = [process.execPath, program('test/git/print-memory-limits')]
  const { stdout } = await promisify(execFile)('sh', [...limited, ...node])
  t.equal(stdout, `${MEBIBYTE},${process.platform === 'linux' ? mine : 1024 * MEBIBYTE}`)
})

t.test('without prlimit, git is ended at its timeout', async (t) => {
  const endless = ['-c', 'alias.wait=!sleep 600', 'wait']
  await t.rejects(git(endless, { timeout: 100 }), { name: 'GitTookTooLong', message: /more than 100 ms/ })
})

/** A pack with one tree, whose checksum is wrong. */
function packOf(deflated: Buffer, size: number): Buffer {
  const header: number[] = [0x80 | (2 << 4) | (size % 16)]
  let rest = Math.floor(size / 16)
  while (rest >= 128) {
    header.push(0x80 | (rest % 128))
    rest = Math.floor(rest / 128)
  }
  header.push(rest)
  const front = Buffer.from('PACK\0\0\0\x02\0\0\0\x01', 'latin1')
  return Buffer.concat([front, Buffer.from(header), deflated, Buffer.alloc(20)])
}
