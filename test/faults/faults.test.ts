import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { runFaults } from '../../faults/run.ts'
import { embeddedStores, type Killable } from '../../faults/stores.ts'
import { gitIn } from '../git-client.ts'
import { NODE_ARGS, program } from '../program.ts'

/** Runs the program with these arguments, on the embedded stores. */
const faults = (...args: string[]) =>
  promisify(execFile)(process.execPath, [...NODE_ARGS, program('faults/faults'), ...args], {
    env: { PATH: process.env.PATH, TMPDIR: tmpdir() },
  })

t.test('npm run faults kills a server under load, and nothing that it acknowledged is lost', async (t) => {
  const { stdout } = await faults('--rounds', '1', '--seed', '7', '--stores', 'embedded')
  const [seed, round, ...rest] = stdout.trim().split('\n')
  t.match(seed, /^seed 7:/)
  const line =
    /^embedded stores, round 1 of 1: killed the server, \d+ ms after an? [a-z ]+: \d+ issues, \d+ pushes, \d+ pull requests, \d+ merges acknowledged, \d+ repeated; nothing lost, sound; healthy after [\d.]+ s$/
  t.match(round, line)
  t.strictSame(rest, [])
})

t.test('npm run faults refuses an option that it cannot use, and starts nothing', async (t) => {
  const refused = [
    [['--rounds', '0'], /^--rounds: must be a whole number from 1 to 10000$/m],
    [['--seed', 'x'], /^--seed: must be a whole number from 1 to/m],
    [['--stores', 'paper'], /^--stores: paper is not one of embedded, doubles$/m],
    [['--other'], /Unknown option '--other'/],
  ] as const
  for (const [args, stderr] of refused) {
    await t.rejects(faults(...args), { code: 2, stdout: '', stderr }, args.join(' '))
  }
})

t.test('a push that is lost fails the run, and is named', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-faults-test-'))
  t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
  let lost = ''
  const branch: Killable = {
    name: 'a branch',
    async kill() {
      const git = join(directory, 'data', 'git')
      const [repository = ''] = await readdir(git)
      const dir = join(git, repository)
      const merged = ['for-each-ref', '--merged=main', '--format=%(refname)', 'refs/heads/topic-*']
      const [ref = ''] = (await gitIn(dir, merged)).split('\n')
      await gitIn(dir, ['update-ref', '-d', ref])
      lost = ref.replace('refs/heads/', '')
    },
    start: async () => {},
  }
  const lines: string[] = []
  const stores = { ...embeddedStores, killable: [branch] }
  const run = {
    stores,
    directory,
    name: 'app',
    rounds: 1,
    seed: 5,
    print: (line: string) => lines.push(line),
  }
  t.notOk(await runFaults(run))
  t.match(lines.at(-1), /killed a branch, .*: FAILED: /)
  t.match(lines.at(-1), `lost: the push of ${lost}`)
  t.match(lines.at(-1), new RegExp(`${lost} is at undefined in git, and at [0-9a-f]{40} in the log`))
})
