import { spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const checkout = fileURLToPath(new URL('../..', import.meta.url))

const lock = (version: string) =>
  JSON.stringify({
    packages: {
      '': {},
      'node_modules/fastify': { version },
      'node_modules/typescript': { version, dev: true },
    },
  })

/** A fake scripts/build.js: it only copies, and fails on demand. */
const BUILD = `
import * as fs from 'node:fs'
if (fs.existsSync('build-fails')) throw new Error('main.ts:1:1: nothing that can be built')
for (const file of fs.readdirSync('src', { recursive: true }).filter((name) => name.endsWith('.ts'))) {
  fs.cpSync('src/' + file, process.argv[2] + '/' + file.replace('.ts', '.js'))
}`

/**
 * A fake `npm` that logs each call, and fails on demand. For scripts/node it installs the Node in brought-node, if
 * there is one.
 */
const NPM = `#!/bin/sh
case $PWD in
  */scripts/node)
    echo "node: $*" >> ../../npm-calls
    mkdir -p node_modules/.bin
    cp package-lock.json node_modules/.package-lock.json
    [ ! -e ../../brought-node ] || cp ../../brought-node node_modules/.bin/node
    exit 0
    ;;
esac
echo "$*" >> npm-calls
if [ -e npm-fails ]; then echo 'npm error code E404' >&2; exit 7; fi
rm -rf node_modules
mkdir node_modules
case "$*" in
  *--omit=dev*) sed 's/,"node_modules.typescript":{[^}]*}//' package-lock.json > node_modules/.package-lock.json ;;
  *) cp package-lock.json node_modules/.package-lock.json ;;
esac
`

/** A tiny checkout in a temporary directory, with the real prepare.js and a fake npm. */
function project(t: Test) {
  const root = t.testdir({
    bin: {},
    scripts: { 'build.js': BUILD, node: { 'package-lock.json': JSON.stringify({ packages: { '': {} } }) } },
    src: {
      'main.ts': 'export const answer: number = 42\n',
      old: { 'gone.ts': 'export const gone = true\n' },
    },
    'package.json': JSON.stringify({ type: 'module', engines: { node: '>=20.19' } }),
    'package-lock.json': lock('1.0.0'),
    'tsconfig.json': '{}',
  })
  const at = (path: string) => join(root, path)
  const write = (path: string, text: string) => writeFileSync(at(path), text, { mode: 0o755 })
  copyFileSync(join(checkout, 'scripts/prepare.js'), at('scripts/prepare.js'))
  write('bin/npm', NPM)

  async function prepare(environment: Record<string, string> = {}, args = ['--build']) {
    const env = { PATH: `${at('bin')}:${dirname(process.execPath)}:${process.env.PATH}`, ...environment }
    const child = spawn(process.execPath, [at('scripts/prepare.js'), ...args], { cwd: '/', env })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    const code = await new Promise((resolve) => child.on('close', resolve))
    return { code, stdout, stderr }
  }
  const lines = (path: string) =>
    existsSync(at(path)) ? readFileSync(at(path), 'utf8').trim().split('\n') : []
  return { at, write, prepare, npmCalls: () => lines('npm-calls').length }
}

const quiet = { code: 0, stdout: '', stderr: '' }
const installed = { code: 0, stdout: /^Installing .*\nBuilding .*\n$/, stderr: /^$/ }
const built = { code: 0, stdout: /^Building .*\n$/, stderr: /^$/ }

t.test('a fresh checkout is installed and built, and again only after a change', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  const modules = () =>
    readdirSync(at('dist'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .sort()

  t.match(await prepare(), installed)
  t.strictSame(await prepare(), quiet, 'nothing changed')

  write('src/main.ts', 'export const answer: number = 43\n')
  t.match(await prepare(), built, 'a changed source')
  t.match(readFileSync(at('dist/main.js'), 'utf8'), 'number = 43')

  write('src/more.ts', 'export {}\n')
  rmSync(at('src/old'), { recursive: true })
  t.match(await prepare(), built, 'an added and a removed source')
  t.strictSame(modules(), ['main.js', 'more.js'])
  t.equal(npmCalls(), 1)

  write('package-lock.json', lock('1.0.1'))
  t.match(await prepare(), installed, 'another lockfile')
  t.strictSame(await prepare(), quiet)
})

t.test('a failing npm ci shows its output and the reason; the next run installs again', async (t) => {
  const { at, write, prepare, npmCalls } = project(t)
  await prepare()
  write('package-lock.json', lock('1.0.1'))
  write('npm-fails', '')
  t.match(await prepare(), {
    code: 1,
    stderr: /^npm error code E404\nCannot prepare: Command failed: npm ci .*\n$/,
  })
  rmSync(at('npm-fails'))
  write('package-lock.json', lock('1.0.0'))
  t.match(await prepare(), installed, 'also with the lockfile of the last good install')
  t.equal(npmCalls(), 3)
})

t.test('a failing build shows its output and the reason, and the last good build stays', async (t) => {
  const { at, write, prepare } = project(t)
  await prepare()
  write('src/main.ts', 'export const answer: number = 43\n')
  write('build-fails', '')
  const failed = {
    code: 1,
    stderr:
      /main\.ts:1:1: nothing that can be built[\s\S]*\nCannot prepare: Command failed: .*build\.js .*\n$/,
  }
  t.match(await prepare(), failed)
  t.match(await prepare(), failed, 'again')
  t.match(readFileSync(at('dist/main.js'), 'utf8'), 'answer: number = 42')
})

t.test(
  'production: an image without src/ needs no preparation; a checkout gets the packages for building',
  async (t) => {
    const image = project(t)
    rmSync(image.at('src'), { recursive: true })
    t.strictSame(await image.prepare({ NODE_ENV: 'production' }), quiet)
    t.equal(image.npmCalls(), 0)

    const { at, prepare } = project(t)
    t.match(await prepare({ NODE_ENV: 'production' }), installed)
    t.equal(readFileSync(at('npm-calls'), 'utf8'), 'ci --omit=dev --no-audit --no-fund\n')
  },
)

t.test('npm start installs the packages for running; npm test then adds those for tests', async (t) => {
  const { at, write, prepare } = project(t)
  const calls = () => readFileSync(at('npm-calls'), 'utf8').trim().split('\n')
  const [without, withDev] = ['ci --omit=dev --no-audit --no-fund', 'ci --include=dev --no-audit --no-fund']
  t.match(await prepare(), installed)
  t.strictSame(await prepare(), quiet)
  t.same(calls(), [without])
  t.match(await prepare({}, ['--dev']), { code: 0, stdout: /^Installing .*\n$/ })
  t.strictSame(await prepare({}, ['--dev']), quiet)
  t.strictSame(await prepare(), quiet, 'a start needs no other packages')
  write('package-lock.json', lock('1.0.1'))
  t.match(await prepare(), installed)
  t.same(calls(), [without, withDev, withDev], 'it takes none away')
})

t.test('without --build it installs and does not build: tests run the sources', async (t) => {
  const { at, prepare, npmCalls } = project(t)
  t.match(await prepare({}, []), { code: 0, stdout: /^Installing .*\n$/ })
  t.equal(npmCalls(), 1)
  t.notOk(existsSync(at('dist')))
})

const needs = (node: string) => JSON.stringify({ type: 'module', engines: { node } })
const refused = (stderr: string) => ({ code: 1, stderr: `Cannot prepare: ${stderr}\n` })

t.test(
  'a checkout on an old Node installs a new one, which npm then finds first, and builds with it',
  async (t) => {
    const { at, write, prepare, npmCalls } = project(t)
    write('package.json', needs('>=99.1'))
    write(
      'brought-node',
      `#!/bin/sh
[ "$1" = --version ] && { echo v99.2.0; exit; }
echo "$1" >> brought-node-ran
exec '${process.execPath}' "$@"
`,
    )
    const first = await prepare()
    t.match(first, {
      code: 0,
      stderr: '',
      stdout:
        /^Installing Node.js for this checkout: 99.1 or later is needed, this is .*\nInstalling the dependencies .*\nBuilding .*\n$/,
    })
    t.match(readFileSync(at('node_modules/.bin/node'), 'utf8'), 'v99.2.0')
    t.equal(readFileSync(at('brought-node-ran'), 'utf8'), 'scripts/build.js\n')

    const made = () => lstatSync(at('node_modules/.bin/node')).ino
    const before = made()
    t.strictSame(await prepare(), quiet, 'it is brought once')
    t.equal(made(), before, 'and linked once: the next run may be of a user who may not change the checkout')
    write('package-lock.json', lock('1.0.1'))
    t.match(await prepare({}, []), { code: 0, stdout: /^Installing the dependencies .*\n$/ })
    t.match(readFileSync(at('node_modules/.bin/node'), 'utf8'), 'v99.2.0', 'also after npm ci removed it')
    t.equal(npmCalls(), 3)
  },
)

t.test('on the installed Node, it stays first after npm ci has removed it', async (t) => {
  const { at, write, prepare } = project(t)
  mkdirSync(at('scripts/node/node_modules/.bin'), { recursive: true })
  symlinkSync(process.execPath, at('scripts/node/node_modules/.bin/node'))
  for (const version of ['1.0.0', '1.0.1']) {
    write('package-lock.json', lock(version))
    t.match(await prepare({}, []), { code: 0, stdout: /^Installing the dependencies .*\n$/ })
    t.ok(existsSync(at('node_modules/.bin/node')))
  }
})

t.test('a checkout that could not get its Node tries again', async (t) => {
  const { write, prepare } = project(t)
  write('package.json', needs('>=99.1'))
  t.match(await prepare(), { code: 1, stderr: /npm has none/ })
  write('brought-node', '#!/bin/sh\necho v99.2.0\n')
  t.match(await prepare({}, []), {
    code: 0,
    stdout: /^Installing Node.js .*\nInstalling the dependencies .*\n$/,
  })
})

t.test('a checkout on a recent Node installs none', async (t) => {
  const { at, prepare } = project(t)
  await prepare()
  t.notMatch(readFileSync(at('npm-calls'), 'utf8'), 'node:')
  t.notOk(existsSync(at('node_modules/.bin/node')))
})

t.test(
  'an old Node where npm has none for the system, an old git and a missing git are reported',
  async (t) => {
    const { write, prepare } = project(t)
    write('package.json', needs('>=99.1'))
    t.match(
      await prepare(),
      refused(
        `Node.js 99.1 or later is needed; found: ${process.versions.node}. Install it from https://nodejs.org: npm has none for this system`,
      ),
    )
    write('package.json', needs('>=20.19'))
    write('bin/git', '#!/bin/sh\necho git version 2.37.9.windows.1\n')
    t.match(await prepare(), refused('git 2.39 or later is needed; found: 2.37.9'))
    t.match(await prepare({ PATH: '/nonexistent' }), refused('git 2.39 or later is needed; found: none'))
    write('bin/git', '#!/bin/sh\necho git version 2.100.0\n')
    t.match(await prepare(), installed, 'versions are compared as numbers')
  },
)

t.test('an image without src/ names the Node that it needs', async (t) => {
  const image = project(t)
  rmSync(image.at('src'), { recursive: true })
  image.write('package.json', needs('>=99.1'))
  t.match(await image.prepare(), refused(`Node.js 99.1 or later is needed; found: ${process.versions.node}`))
})
