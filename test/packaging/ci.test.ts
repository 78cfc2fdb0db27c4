import { spawn } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const script = fileURLToPath(new URL('../../.ci/run', import.meta.url))

interface Said {
  output: string
  code?: number
}

/**
 * Runs .ci/run, without a terminal or stdin, on a fake `npm` that answers `npm test` and `npm run test:clients` as
 * given and other calls with one line, and cannot install.
 */
async function ci(t: Test, test: Said, clients: Said = { output: '3 passed, 0 failed\n' }) {
  const root = t.testdir({ '.ci': {}, bin: {}, test: test.output, clients: clients.output })
  copyFileSync(script, join(root, '.ci/run'))
  const npm = `#!/bin/sh
echo "$*; CI=$CI; $(cat)" >> called
case "$*" in
  test) cat test; exit ${test.code ?? 0} ;;
  'run test:clients') cat clients; exit ${clients.code ?? 0} ;;
  install*) exit 1 ;;
esac
echo nothing is counted
`
  writeFileSync(join(root, 'bin/npm'), npm, { mode: 0o755 })
  const child = spawn(join(root, '.ci/run'), {
    cwd: '/',
    env: { PATH: `${join(root, 'bin')}:${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += chunk
  })
  const status = await new Promise((resolve) => child.on('close', resolve))
  return {
    status,
    said,
    last: said.trimEnd().split('\n').at(-1),
    called: readFileSync(join(root, 'called'), 'utf8').trim().split('\n'),
  }
}

const GREEN = { output: '✔ test/a.test.ts (0.1 s)\n12 passed, 0 failed\n' }
/** The counts of `npm run test:system`, `faults` and `hostile`: one each. */
const OTHERS = 3

t.test('CI runs npm test and then all else, shows the output and ends with the counts', async (t) => {
  const { status, said, last, called } = await ci(t, GREEN)
  t.equal(status, 0)
  t.equal(last, `${12 + 3 + OTHERS} passed, 0 failed`)
  t.match(said, '✔ test/a.test.ts (0.1 s)')
  t.match(said, 'Node 26 could not be installed: nothing is run on it')
  t.match(called, [
    'test; CI=true; ',
    'run test:system; CI=true; ',
    'run test:clients; CI=true; ',
    /^run faults -- .*--seed 1\b/,
    /^run hostile -- --quick /,
    /^install .* node-linux-\S+@26/,
  ])
})

t.test(
  'failed and skipped tests are counted, the exit code is that of npm test, and nothing runs again',
  async (t) => {
    const { status, last, called } = await ci(t, { output: '5 passed, 4 failed, 2 skipped\n', code: 3 })
    t.equal(status, 3)
    t.equal(last, `${5 + 3 + OTHERS} passed, 4 failed, 2 skipped`)
    t.equal(called.filter((one) => one.startsWith('test;')).length, 1)
  },
)

t.test('only the last counts are taken, because a test may print such a line', async (t) => {
  const { last } = await ci(t, { output: '99 passed, 0 failed\n1 passed, 1 failed\n', code: 1 })
  t.equal(last, `${1 + 3 + OTHERS} passed, 1 failed`)
})

t.test('a run that ends before the tests is a failure, also in the counts', async (t) => {
  const { status, last } = await ci(t, { output: 'lint: 3 errors\n', code: 2 })
  t.equal(status, 2)
  t.equal(last, `${3 + OTHERS} passed, 1 failed`)
})

t.test(
  'a run without counted failures that exits badly is a failure, and one with failures is never green',
  async (t) => {
    const crashed = await ci(t, { output: '12 passed, 0 failed\n', code: 9 })
    t.equal(crashed.status, 9)
    t.match(crashed.said, 'npm test failed (exit 9) outside of the tests')
    t.equal(crashed.last, `${12 + 3 + OTHERS} passed, 1 failed`)
    const silent = await ci(t, { output: '12 passed, 2 failed\n' })
    t.equal(silent.status, 1)
    t.equal(silent.last, `${12 + 3 + OTHERS} passed, 2 failed`)
  },
)

t.test('the clients are counted too, and their failure fails CI', async (t) => {
  const failing = await ci(t, GREEN, { output: '1 passed, 2 failed, 1 skipped\n', code: 1 })
  t.equal(failing.last, `${12 + 1 + OTHERS} passed, 2 failed, 1 skipped`)
  t.equal(failing.status, 1)
  const broken = await ci(t, GREEN, { output: 'npm error\n', code: 1 })
  t.equal(broken.last, `${12 + OTHERS} passed, 1 failed`)
  t.equal(broken.status, 1)
})
