/**
 * Prepares a checkout: runs `npm ci` when node_modules/ differs from package-lock.json, installs Node when the running
 * one is too old, and with `--build` runs scripts/build.js when a source is newer than the build. Packages for tests,
 * three quarters of all, are installed with `--dev` only. Runs before `npm start`, `npm test` and others. Packages may
 * be missing and Node may be old, so it is plain JavaScript for Node 18. Do not run it twice at the same time in one
 * checkout.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const OWN_NODE = 'node_modules/.bin/node'
const OWN_NODE_PACKAGE = 'scripts/node'
const INSTALLED_NODE = join(OWN_NODE_PACKAGE, OWN_NODE)

/** Returns the first version number in the output of a program. */
function versionOf(program) {
  return /\d+(\.\d+)+/.exec(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout)?.[0]
}

const isEnough = (found, minimum) =>
  found !== undefined && found.localeCompare(minimum, 'en', { numeric: true }) >= 0

function requireVersion(name, minimum, found, advice = '') {
  if (!isEnough(found, minimum)) {
    throw new Error(`${name} ${minimum} or later is needed; found: ${found ?? 'none'}${advice}`)
  }
}

const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))

const RECORD = 'node_modules/.package-lock.json'

/** The packages that npm has recorded as installed. */
const installed = () => (fs.existsSync(RECORD) ? readJson(RECORD).packages : {})

/**
 * Compares npm's record of installed packages with package-lock.json. Optional packages may be missing: they may be for
 * another platform. `withDev`: whether packages for tests are needed, too.
 */
function isInstalled(withDev) {
  const present = installed()
  return Object.entries(readJson('package-lock.json').packages)
    .filter(([path, { optional, devOptional }]) => path !== '' && !optional && !devOptional)
    .filter(([, { dev }]) => withDev || !dev)
    .every(([path, { version }]) => present[path]?.version === version)
}

/** Whether an earlier run has installed the packages for tests. */
const hasDev = () => Object.values(installed()).some(({ dev }) => dev)

/** @param node the program that runs npm */
function install(directory, what, node, which = '--include=dev') {
  console.log(`Installing ${what} (npm ci)`)
  // Removes the record first: it would be wrong if the installation is interrupted.
  fs.rmSync(join(directory, RECORD), { force: true })
  execFileSync('npm', ['ci', which, '--no-audit', '--no-fund'], {
    cwd: directory,
    stdio: 'inherit',
    env: { ...process.env, PATH: dirname(node) + delimiter + process.env.PATH },
  })
}

/**
 * Installs the Node of scripts/node and returns its path. Without one for this platform, prints the required version.
 */
function provideNode(minimum) {
  const found = process.versions.node
  if (!isEnough(versionOf(INSTALLED_NODE), minimum)) {
    const what = `Node.js for this checkout: ${minimum} or later is needed, this is ${found}`
    install(OWN_NODE_PACKAGE, what, process.execPath)
  }
  const advice = '. Install it from https://nodejs.org: npm has none for this system'
  requireVersion('Node.js', minimum, versionOf(INSTALLED_NODE) ?? found, advice)
  return resolve(INSTALLED_NODE)
}

const realPath = (path) => (fs.existsSync(path) ? fs.realpathSync(path) : undefined)

/** Links the installed Node, if it is in use, into the first directory that npm searches. */
function linkNode(node) {
  // Most runs need no change, and the checkout may belong to another user.
  if (realPath(node) !== realPath(INSTALLED_NODE) || realPath(OWN_NODE) === realPath(node)) return
  fs.mkdirSync(dirname(OWN_NODE), { recursive: true })
  // Atomically, because another program of this checkout may start now.
  const link = `${OWN_NODE}-${process.pid}`
  fs.symlinkSync(resolve(INSTALLED_NODE), link)
  fs.renameSync(link, OWN_NODE)
}

/** @param node the program to build with */
function build(node) {
  const inSrc = fs.readdirSync('src', { recursive: true }).map((name) => join('src', name))
  // Includes the directories: removing a file changes the time of its directory.
  const sources = ['tsconfig.json', 'package-lock.json', 'scripts/build.js', 'src', ...inSrc]
  const changedAt = Math.max(...sources.map((file) => fs.lstatSync(file).mtimeMs))
  if (fs.existsSync('dist/.built') && fs.statSync('dist/.built').mtimeMs >= changedAt) return
  console.log('Building src/ into dist/')
  // Builds into a new directory, so that modules of removed sources disappear.
  fs.rmSync('dist.new', { recursive: true, force: true })
  fs.mkdirSync('dist.new')
  fs.writeFileSync('dist.new/.built', '')
  execFileSync(node, ['scripts/build.js', 'dist.new'], { stdio: 'inherit' })
  fs.rmSync('dist', { recursive: true, force: true })
  fs.renameSync('dist.new', 'dist')
}

try {
  process.chdir(fileURLToPath(new URL('..', import.meta.url)))
  const minimum = readJson('package.json').engines.node.replace('>=', '')
  requireVersion('git', '2.39', versionOf('git'))
  // A container image has dist/ and packages but no src/, so it needs no preparation.
  if (fs.existsSync('src')) {
    const isOld = !isEnough(process.versions.node, minimum)
    const node = isOld ? provideNode(minimum) : process.execPath
    const needsDev = process.argv.includes('--dev')
    if (!isInstalled(needsDev)) {
      const which = needsDev || hasDev() ? '--include=dev' : '--omit=dev'
      install('.', 'the dependencies of package-lock.json', node, which)
    }
    linkNode(node)
    if (process.argv.includes('--build')) build(node)
  } else {
    requireVersion('Node.js', minimum, process.versions.node)
  }
} catch (error) {
  console.error(`Cannot prepare: ${error.message}`)
  process.exitCode = 1
}
