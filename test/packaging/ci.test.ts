import { spawn } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const script = fileURLToPath(new URL('../../.ci/run', import.meta.url))

/**
 * Runs .ci/run, without a terminal or stdin, on an `npm` that prints `output` and ends with `code`, and does so with
 * `clients` when it is asked for these. An `npx` does so with `again`.
 */
async function ci(
  t: Test,
  output: string,
  code: number,
  clients = { output: 'the registry of npm cannot be reached\n', code: 0 },
  again = { output: 'nothing was to run again\n', code: 9 },
) {
  const root = t.testdir({ '.ci': {}, bin: {}, output, clients: clients.output, again: again.output })
  copyFileSync(script, join(root, '.ci/run'))
  const npm = `#!/bin/sh
echo "$*; CI=$CI; reporter=$TAP_REPORTER; $(cat)" >> called
[ "$*" != "run test:clients" ] || { cat clients; exit ${clients.code}; }
cat output
exit ${code}
`
  writeFileSync(join(root, 'bin/npm'), npm, { mode: 0o755 })
  const npx = `#!/bin/sh\necho "again: $*" >> called\ncat again\nexit ${again.code}\n`
  writeFileSync(join(root, 'bin/npx'), npx, { mode: 0o755 })
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
    called: readFileSync(join(root, 'called'), 'utf8').trim(),
  }
}

t.test('CI runs exactly npm test and the clients, shows their output and ends with the counts', async (t) => {
  const { status, said, last, called } = await ci(
    t,
    ' PASS  a.test.ts\n# { total: 12, pass: 12 }\n# time=5ms\n',
    0,
  )
  t.equal(status, 0)
  t.equal(last, '12 passed, 0 failed')
  t.match(said, ' PASS  a.test.ts')
  t.equal(called, 'test; CI=true; reporter=base; \nrun test:clients; CI=true; reporter=base;')
})

t.test('failed and skipped tests are counted, and the exit code is that of npm test', async (t) => {
  const { status, last } = await ci(t, '# { total: 11, pass: 5, fail: 4, todo: 1, skip: 1 }\n', 3)
  t.equal(status, 3)
  t.equal(last, '5 passed, 4 failed, 2 skipped')
})

t.test('only the last summary counts, because a test may print its own summary', async (t) => {
  const { last } = await ci(t, '# { total: 99, pass: 99 }\n# { total: 2, pass: 1, fail: 1 }\n', 1)
  t.equal(last, '1 passed, 1 failed')
})

t.test('a run that ends before the tests is a failure, also in the counts', async (t) => {
  const { status, said, last } = await ci(t, 'lint: 3 errors\n', 2)
  t.equal(status, 2)
  t.match(said, 'npm test failed (exit 2) outside of the tests')
  t.equal(last, '0 passed, 1 failed')
})

t.test('a success without a summary is a failure', async (t) => {
  const { status, last } = await ci(t, 'all is well\n', 0)
  t.equal(status, 1)
  t.equal(last, '0 passed, 1 failed')
})

t.test('the clients are counted too, and their failure is one of CI', async (t) => {
  const sum = '# { total: 12, pass: 12 }\n'
  const both = await ci(t, sum, 0, { output: '# { total: 3, pass: 2, skip: 1 }\n', code: 0 })
  t.equal(both.last, '14 passed, 0 failed, 1 skipped')
  t.equal(both.status, 0)
  const failing = await ci(t, sum, 0, { output: '# { total: 3, pass: 1, fail: 2 }\n', code: 1 })
  t.equal(failing.last, '13 passed, 2 failed')
  t.equal(failing.status, 1)
  const broken = await ci(t, sum, 0, { output: 'npm error\n', code: 1 })
  t.equal(broken.last, '12 passed, 1 failed')
  t.equal(broken.status, 1)
})

const failing = (files: string[], failures: number) =>
  `${files.map((name) => ` FAIL  .test-build/test/${name}.test.js 1 failed of 9 2s\n`).join('')}# { total: 90, pass: 80, fail: ${failures} }\n`

t.test('a test file that fails is run a second time, and only then makes the run red', async (t) => {
  const noClients = { output: '', code: 0 }
  const files = ['a', 'b/c']
  const chance = { output: '# { total: 18, pass: 18 }\n', code: 0 }
  const lucky = await ci(t, failing([...files, 'a'], 2), 1, noClients, chance)
  t.equal(lucky.status, 0)
  t.equal(lucky.last, '80 passed, 0 failed', 'what passed the second time is not counted as passed')
  t.match(
    lucky.called,
    /again: tap run --jobs=1 \.test-build\/test\/a\.test\.js \.test-build\/test\/b\/c\.test\.js\n/,
  )
  t.match(lucky.said, ' FAIL  .test-build/test/a.test.js')
  t.match(lucky.said, 'passed when run a second time, one after the other: .test-build/test/a.test.js')

  const bug = { output: '# { total: 18, pass: 17, fail: 1 }\n', code: 1 }
  const red = await ci(t, failing(files, 2), 1, noClients, bug)
  t.equal(red.status, 1)
  t.equal(red.last, '80 passed, 1 failed')
})

t.test('many files do not fail by chance: none of them is run again', async (t) => {
  const { status, last, called } = await ci(t, failing(['a', 'b', 'c', 'd', 'e', 'f'], 6), 1)
  t.equal(status, 1)
  t.equal(last, '80 passed, 6 failed')
  t.notMatch(called, 'again:')
})
