import { type ChildProcess, spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const lock = (version: string) =>
  JSON.stringify({
    lockfileVersion: 3,
    packages: { '': {}, 'node_modules/typescript': { version, dev: true } },
  })

/** Stands in for the compiler, which takes its time, where a test is about something else. */
const COPIER = `
const fs = require('node:fs')
fs.writeFileSync('dist/main.js', fs.readFileSync('src/main.ts', 'utf8').replace(': number', ''))
console.log('TSFILE: ' + fs.realpathSync('dist') + '/main.js')
`

/** An `npm` that notes each call, fails or waits on demand, and installs a compiler. */
const NPM = `#!/bin/sh
echo "$*" >> npm-calls
if [ -e npm-fails ]; then echo 'npm error code E404' >&2; exit 7; fi
if [ -e npm-waits ]; then
  [ -e npm-at-work ] && echo overlap >> npm-calls
  echo $$ > npm-at-work
  while [ -e npm-waits ]; do sleep 0.05; done
  rm -f npm-at-work
fi
rm -rf node_modules
mkdir node_modules
case "$*" in *--omit=dev*) ;; *) cp -RP compiler node_modules/typescript ;; esac
if [ -e tap ]; then cp -R tap node_modules/tap; fi
`

interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

/** A tiny checkout of its own in a temporary directory, with the real prepare.js and a fake npm. */
function project(t: Test, compiler: 'real' | 'quick' = 'quick') {
  const root = t.testdir({
    bin: {},
    scripts: {},
    src: {
      'main.ts': 'export const answer: number = 42\n',
      old: { 'gone.ts': 'export const gone = true\n' },
    },
    'package.json': JSON.stringify({ type: 'module', engines: { node: '>=20.19' } }),
    'package-lock.json': lock('1.0.0'),
    'tsconfig.build.json': JSON.stringify({
      compilerOptions: {
        module: 'NodeNext',
        target: 'ES2023',
        lib: ['ES5'],
        skipLibCheck: true,
        types: [],
        rootDir: 'src',
        outDir: 'dist',
      },
      include: ['src'],
    }),
  })
  const at = (path: string) => join(root, path)
  copyFileSync(join(checkout, 'scripts/prepare.js'), at('scripts/prepare.js'))
  writeFileSync(at('bin/npm'), NPM, { mode: 0o755 })
  if (compiler === 'real') symlinkSync(join(checkout, 'node_modules/typescript'), at('compiler'))
  else {
    mkdirSync(at('compiler/bin'), { recursive: true })
    writeFileSync(at('compiler/package.json'), '{"type":"commonjs"}')
    writeFileSync(at('compiler/bin/tsc'), COPIER)
  }
  const env = { PATH: `${at('bin')}:${dirname(process.execPath)}:${process.env.PATH}` }

  const start = (more: Record<string, string> = {}) =>
    spawn(process.execPath, [at('scripts/prepare.js')], {
      cwd: '/',
      env: { ...env, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  const prepare = (more?: Record<string, string>) => finish(start(more))
  return {
    at,
    start,
    prepare,
    write: (path: string, text: string) => writeFileSync(at(path), text),
    npmCalls: () =>
      existsSync(at('npm-calls')) ? readFileSync(at('npm-calls'), 'utf8').trim().split('\n') : [],
  }
}

function finish(child: ChildProcess): Promise<Finished> {
  return new Promise((resolve, reject) => {
    let stdout = ''
    let stderr = ''
    child.stdout?.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr?.on('data', (chunk) => {
      stderr += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

async function until(condition: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 20_000; !condition(); await delay(10)) {
    if (Date.now() > deadline) throw new Error(`never came true: ${condition}`)
  }
}

const quiet: Finished = { code: 0, stdout: '', stderr: '' }

t.test('a fresh checkout is installed and built, with one line for each', async (t) => {
  const { at, prepare, npmCalls } = project(t, 'real')
  const { code, stdout, stderr } = await prepare()
  t.equal(stderr, '')
  t.equal(code, 0)
  t.match(stdout, /^Installing .*\nBuilding .*\n$/)
  t.strictSame(npmCalls(), ['ci --no-audit --no-fund'])
  t.match(readFileSync(at('dist/main.js'), 'utf8'), 'answer = 42')
})

t.test('a checkout that is ready is left alone, without a word', async (t) => {
  const { at, prepare, npmCalls } = project(t)
  await prepare()
  const before = readFileSync(at('dist/main.js'))
  t.strictSame(await prepare(), quiet)
  t.strictSame(
    await prepare({ NODE_ENV: 'production' }),
    quiet,
    'nor is more than a production needs taken away',
  )
  t.equal(npmCalls().length, 1)
  t.strictSame(readFileSync(at('dist/main.js')), before)
})

t.test('a changed lockfile installs and builds again', async (t) => {
  const { write, prepare, npmCalls } = project(t)
  await prepare()
  write('package-lock.json', lock('1.0.1'))
  const { code, stdout } = await prepare()
  t.equal(code, 0)
  t.match(stdout, /^Installing .*\nBuilding .*\n$/)
  t.equal(npmCalls().length, 2)
  t.strictSame(await prepare(), quiet)
})

t.test('an install that someone ran by hand is believed if it is what the lockfile asks for', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  mkdirSync(at('node_modules'))
  symlinkSync(at('compiler'), at('node_modules/typescript'))
  write('node_modules/.package-lock.json', lock('1.0.0'))
  t.match(await prepare(), { code: 0, stdout: /^Building .*\n$/ })
  t.strictSame(npmCalls(), [])
  write('node_modules/.package-lock.json', lock('0.9.0'))
  t.match(await prepare(), { code: 0, stdout: /^Installing .*\n$/ })
  t.equal(npmCalls().length, 1)
})

t.test('an install of another platform is not believed', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  await prepare()
  const stamp = JSON.parse(readFileSync(at('node_modules/.mergelog-stamp'), 'utf8'))
  write('node_modules/.mergelog-stamp', JSON.stringify({ ...stamp, platform: 'sunos-sparc' }))
  t.equal((await prepare()).code, 0)
  t.equal(npmCalls().length, 2)
})

t.test(
  'a changed, an added, a moved and a removed source each build again, and nothing stale stays',
  async (t) => {
    const { at, write, prepare, npmCalls } = project(t, 'real')
    await prepare()
    t.ok(existsSync(at('dist/old/gone.js')))
    const steps: [string, () => void, string[]][] = [
      [
        'changed',
        () => write('src/main.ts', 'export const answer: number = 43\n'),
        ['main.js', 'old/gone.js'],
      ],
      ['added', () => write('src/more.ts', 'export {}\n'), ['main.js', 'more.js', 'old/gone.js']],
      [
        'moved',
        () => renameSync(at('src/more.ts'), at('src/moved.ts')),
        ['main.js', 'moved.js', 'old/gone.js'],
      ],
      ['removed', () => rmSync(at('src/old'), { recursive: true }), ['main.js', 'moved.js']],
    ]
    for (const [what, change, expected] of steps) {
      change()
      t.match(await prepare(), { code: 0, stdout: /^Building .*\n$/, stderr: /^$/ }, what)
      const files = readdirSync(at('dist'), { recursive: true, encoding: 'utf8' })
      t.strictSame(files.filter((file) => file.endsWith('.js')).sort(), expected, what)
    }
    t.notOk(existsSync(at('dist/old')), 'nor does an empty directory')
    t.match(readFileSync(at('dist/main.js'), 'utf8'), 'answer = 43')
    t.equal(npmCalls().length, 1)
  },
)

t.test('a failing npm fails the preparation and is heard in full; the next run tries again', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  write('npm-fails', '')
  const { code, stderr } = await prepare()
  t.equal(code, 1)
  t.equal(stderr, 'npm error code E404\nCannot prepare: npm ci failed (7)\n')
  t.notOk(existsSync(at('dist/main.js')), 'nothing is built on a failed install')
  rmSync(at('npm-fails'))
  t.equal((await prepare()).code, 0)
  t.equal(npmCalls().length, 2)
})

t.test('a failing build fails the preparation, shows why, and leaves the last good build', async (t) => {
  const { at, write, prepare } = project(t, 'real')
  await prepare()
  write('src/main.ts', 'export const answer: number = "forty-two"\n')
  for (const attempt of ['at once', 'again']) {
    const { code, stderr } = await prepare()
    t.equal(code, 1, attempt)
    t.match(stderr, /main\.ts.*TS2322(.|\n)*Cannot prepare: the build failed/, attempt)
  }
  t.match(readFileSync(at('dist/main.js'), 'utf8'), 'answer = 42')
})

t.test('of two at once, one installs and builds, and the other waits and finds all done', async (t) => {
  const { at, write, start, npmCalls } = project(t)
  write('npm-waits', '')
  const first = finish(start())
  await until(() => existsSync(at('npm-at-work')))
  const child = start()
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += chunk
  })
  const second = finish(child)
  await until(() => said.includes('Waiting'))
  rmSync(at('npm-waits'))
  t.match(await first, { code: 0, stdout: /^Installing .*\nBuilding .*\n$/, stderr: /^$/ })
  t.match(await second, { code: 0, stdout: /^Waiting .*\n$/, stderr: /^$/ })
  t.equal(npmCalls().length, 1)
})

t.test('after a kill -9 the next one waits for the npm that is left, then does the work anew', async (t) => {
  const { at, write, start, npmCalls } = project(t)
  write('npm-waits', '')
  const killed = start()
  await until(() => existsSync(at('npm-at-work')))
  killed.kill('SIGKILL')
  await new Promise((resolve) => killed.once('exit', resolve))
  const child = start()
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += chunk
  })
  const next = finish(child)
  await until(() => said.includes('Waiting'))
  t.equal(npmCalls().length, 1)
  rmSync(at('npm-waits'))
  t.match(await next, { code: 0, stdout: /^Waiting .*\nInstalling .*\nBuilding .*\n$/ })
  t.strictSame(
    npmCalls(),
    ['ci --no-audit --no-fund', 'ci --no-audit --no-fund'],
    'and they never overlapped',
  )
})

t.test('many at once after a crash take turns', async (t) => {
  const { at, prepare, npmCalls } = project(t)
  mkdirSync(at('dist'))
  const dead = spawn('true')
  await new Promise((resolve) => dead.once('exit', resolve))
  writeFileSync(at('dist/.turn-7'), `${dead.pid}\n`)
  const all = await Promise.all(Array.from({ length: 6 }, () => prepare()))
  t.strictSame(new Set(all.map(({ code, stderr }) => `${code}${stderr}`)), new Set(['0']))
  t.equal(npmCalls().length, 1)
})

t.test('a production install leaves the dev tools out', async (t) => {
  for (const env of [{ NODE_ENV: 'production' }, { npm_config_omit: 'dev' }]) {
    const { at, prepare, npmCalls } = project(t)
    rmSync(at('src'), { recursive: true })
    t.match(
      await prepare(env),
      { code: 0, stdout: /^Installing .*\n$/, stderr: /^$/ },
      'nothing to build in an image',
    )
    t.strictSame(npmCalls(), ['ci --no-audit --no-fund --omit=dev'])
    t.strictSame(await prepare(env), quiet)
  }
})

t.test('a production install with nothing built says how to build, and fetches no compiler', async (t) => {
  const { prepare, npmCalls } = project(t)
  const { code, stderr } = await prepare({ NODE_ENV: 'production' })
  t.equal(code, 1)
  t.match(stderr, /^Cannot prepare: dist\/ is missing or older than src\/.*npm run build.*\n$/)
  t.strictSame(npmCalls(), [])
})

t.test('what a production install left out is installed when it is needed', async (t) => {
  const { at, prepare, npmCalls } = project(t)
  renameSync(at('src'), at('elsewhere'))
  await prepare({ NODE_ENV: 'production' })
  renameSync(at('elsewhere'), at('src'))
  t.match(await prepare(), { code: 0, stdout: /^Installing .*\nBuilding .*\n$/ })
  t.strictSame(npmCalls(), ['ci --no-audit --no-fund --omit=dev', 'ci --no-audit --no-fund'])
})

t.test('before the tests, and only then, tap is built with the plugins that .taprc names', async (t) => {
  const { at, write, prepare } = project(t)
  const before = { npm_lifecycle_event: 'pretest' }
  mkdirSync(at('tap/dist/esm'), { recursive: true })
  write('tap/dist/esm/run.mjs', 'console.log(process.argv[2]); process.exit(process.env.TAP_FAILS ? 9 : 0)')
  write('.taprc', 'plugin: []')
  t.match(await prepare({ npm_lifecycle_event: 'prestart' }), {
    code: 0,
    stdout: /^Installing .*\nBuilding src.*\n$/,
  })
  t.match(await prepare({ ...before, TAP_FAILS: '1' }), {
    code: 1,
    stderr: 'build\nCannot prepare: tap build failed (9)\n',
  })
  t.match(await prepare(before), { code: 0, stdout: /^Building tap .*\n$/, stderr: /^$/ })
  t.strictSame(await prepare(before), quiet)
  write('.taprc', 'plugin: ["!@tapjs/typescript"]')
  t.match(await prepare(before), { code: 0, stdout: /^Building tap .*\n$/ }, 'again when .taprc changed')
  write('package-lock.json', lock('1.0.1'))
  const { stdout } = await prepare(before)
  t.match(stdout, /^Installing .*\nBuilding src.*\nBuilding tap .*\n$/, 'and after every install')
})

t.test('a Node or a git that is too old, and a missing git, are named in one line', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  write('package.json', JSON.stringify({ type: 'module', engines: { node: '>=99.1' } }))
  t.match(await prepare(), {
    code: 1,
    stderr: `Cannot prepare: Node.js 99.1 or later is needed; this is ${process.versions.node}\n`,
  })
  write('package.json', JSON.stringify({ type: 'module', engines: { node: '>=20.19' } }))
  writeFileSync(at('bin/git'), '#!/bin/sh\necho git version 2.37.9.windows.1\n', { mode: 0o755 })
  t.match(await prepare(), {
    code: 1,
    stderr: /^Cannot prepare: git 2\.39 or later is needed; this is 2\.37\.9\n$/,
  })
  t.match(await prepare({ PATH: '/nonexistent' }), {
    code: 1,
    stderr: /^Cannot prepare: git .* none was found.*\n$/,
  })
  writeFileSync(at('bin/git'), '#!/bin/sh\necho git version 2.100.0\n', { mode: 0o755 })
  t.equal((await prepare()).code, 0, 'versions are compared as numbers')
  t.equal(npmCalls().length, 1)
})
