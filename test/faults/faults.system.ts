import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { readOptions } from '../../faults/options.ts'
import type { Fault } from '../../faults/plan.ts'
import { type Run, runFaults } from '../../faults/run.ts'
import { embeddedStores, type Killable } from '../../faults/stores.ts'
import { gitIn, type Test } from '../git-client.ts'
import { PROGRAM_ENVIRONMENT, program } from '../program.ts'

/** Runs the program with these arguments, on the embedded stores. */
const faults = (...args: string[]) =>
  promisify(execFile)(process.execPath, [program('faults/faults'), ...args], {
    env: { ...PROGRAM_ENVIRONMENT, TMPDIR: tmpdir() },
  })

const DONE =
  /: \d+ issues, \d+ comments, \d+ files, \d+ pushes, \d+ tags, \d+ pull requests, \d+ merges, \d+ tokens, \d+ repositories acknowledged, \d+ repeated, \d+ reads after writes.*; nothing lost, sound; healthy after [\d.]+ s$/

t.test(
  'npm run faults kills a server under load, at a random moment and between two steps of a saga, without a loss',
  async (t) => {
    const options = ['--rounds', '2', '--seed', '7', '--stores', 'embedded', '--points', 'merge']
    const { stdout } = await faults(...options)
    const [seed, first = '', second = '', ...rest] = stdout.trim().split('\n')
    t.match(seed, /^seed 7:/)
    t.match(first, /^embedded stores, round 1 of 2: killed the server, \d+ ms after an? [a-z ]+:/)
    t.match(second, /^embedded stores, round 2 of 2: killed the server when the .* \(merge\), from \d+ ms /)
    for (const line of [first, second]) t.match(line, DONE)
    t.strictSame(rest, [])
  },
)

t.test('npm run faults names an option that it cannot use, and starts nothing', async (t) => {
  await t.rejects(faults('--points', 'push,lunch'), {
    code: 2,
    stdout: '',
    stderr: /^--points: lunch is not one of push, merge, /m,
  })
  const refused = [
    [['--rounds', '0'], /^--rounds: must be a whole number from 1 to 10000$/],
    [['--seconds', '1.5'], /^--seconds: must be a whole number from 1 to/],
    [['--seed', 'x'], /^--seed: must be a whole number from 1 to/],
    [['--nodes', '10'], /^--nodes: must be a whole number from 1 to 9$/],
    [['--stores', 'paper'], /^--stores: paper is not one of embedded, doubles$/],
    [['--other'], /^Unknown option '--other'/],
  ] as const
  for (const [args, message] of refused) t.throws(() => readOptions([...args]), { message }, args.join(' '))
})

/** A run on the embedded stores in a directory of its own, and the lines that it prints. */
async function runOf(t: Test, { killable, ...own }: Partial<Run> & { killable: readonly Killable[] }) {
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-faults-test-'))
  t.teardown(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }))
  const lines: string[] = []
  const fault: Fault = { how: 'kill', server: undefined, store: 0, after: 'merges', afterMs: 0, forMs: 0 }
  const run: Run = {
    stores: { ...embeddedStores, killable },
    directory,
    name: 'app',
    nodes: 1,
    plan: [fault],
    seconds: 3600,
    seed: 5,
    print: (line) => lines.push(line),
    ...own,
  }
  return { run, lines }
}

t.test('npm run faults begins no round after its last second', async (t) => {
  const { run, lines } = await runOf(t, { killable: [], seconds: 0 })
  t.ok(await runFaults(run))
  t.strictSame(lines, ['embedded stores: the time is over after 0 of 1 rounds'])
})

// With this seed, both clients begin with a merge that keeps its branch.
t.test('a lost push fails the run, and is named', async (t) => {
  let lost = ''
  const branch: Killable = {
    name: 'a branch',
    async kill() {
      const git = join(run.directory, 'data', 'git')
      for (const repository of await readdir(git)) {
        const dir = join(git, repository)
        const merged = ['for-each-ref', '--merged=main', '--format=%(refname)', 'refs/heads/topic-*-1']
        const [ref = ''] = (await gitIn(dir, merged)).split('\n')
        if (ref === '') continue
        await gitIn(dir, ['update-ref', '-d', ref])
        lost = ref.replace('refs/heads/', '')
        return
      }
    },
    start: async () => {},
    freeze: () => {},
    thaw: () => {},
  }
  const { run, lines } = await runOf(t, { killable: [branch] })
  t.notOk(await runFaults(run))
  t.match(lines.at(-1), /killed a branch, .*: FAILED: /)
  t.match(lines.at(-1), `lost: the push of ${lost}`)
  t.match(lines.at(-1), new RegExp(`${lost} is at undefined in git, and at [0-9a-f]{40} in the log`))
})
