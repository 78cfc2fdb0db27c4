/**
 * Prepares a checkout: runs `npm ci` when node_modules/ differs from package-lock.json, brings a Node when this one is too
 * old, and with `--build` runs scripts/build.js when a source is newer than the build. Runs before `npm start`, `npm test`
 * and others. Packages may not be installed yet and Node may be old, so it is plain JavaScript that Node 18 reads. Don't
 * run it twice at the same time in one checkout.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** npm puts this directory first on PATH, so that its scripts run on this Node when it is there. */
const OWN_NODE = 'node_modules/.bin/node'
const OWN_NODE_PACKAGE = 'scripts/node'

/** Finds the first version number in what a program says about itself. */
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

/**
 * Compares npm's record of installed packages in a directory with package-lock.json. Optional packages may be missing:
 * they may be for another platform.
 */
function isInstalled(directory) {
  const record = join(directory, 'node_modules/.package-lock.json')
  if (!fs.existsSync(record)) return false
  const present = readJson(record).packages
  return Object.entries(readJson(join(directory, 'package-lock.json')).packages)
    .filter(([path, { optional, devOptional }]) => path !== '' && !optional && !devOptional)
    .every(([path, { version }]) => present[path]?.version === version)
}

function install(directory, what) {
  if (isInstalled(directory)) return
  console.log(`Installing ${what} (npm ci)`)
  // Remove the record first: it would be wrong if the installation is cut off.
  fs.rmSync(join(directory, 'node_modules/.package-lock.json'), { force: true })
  execFileSync('npm', ['ci', '--include=dev', '--no-audit', '--no-fund'], {
    cwd: directory,
    stdio: 'inherit',
  })
}

/** Brings the Node of scripts/node, for this checkout alone; where npm has none for this machine, says what is needed. */
function bringNode(minimum) {
  install(
    OWN_NODE_PACKAGE,
    `Node.js for this checkout: ${minimum} or later is needed, this is ${process.versions.node}`,
  )
  const brought = join(OWN_NODE_PACKAGE, OWN_NODE)
  const advice = '. Install it from https://nodejs.org: npm has none for this system'
  requireVersion('Node.js', minimum, versionOf(brought) ?? process.versions.node, advice)
  fs.rmSync(OWN_NODE, { force: true })
  fs.mkdirSync('node_modules/.bin', { recursive: true })
  fs.symlinkSync(join('../..', brought), OWN_NODE)
}

/** @param node the program to build with */
function build(node) {
  const inSrc = fs.readdirSync('src', { recursive: true }).map((name) => join('src', name))
  // Include the directories: removing a file changes the time of its directory.
  const sources = ['tsconfig.json', 'package-lock.json', 'scripts/build.js', 'src', ...inSrc]
  const changedAt = Math.max(...sources.map((file) => fs.lstatSync(file).mtimeMs))
  if (fs.existsSync('dist/.built') && fs.statSync('dist/.built').mtimeMs >= changedAt) return
  console.log('Building src/ into dist/')
  // Build into a new directory, so that no module stays whose source was removed.
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
  // A container image has dist/ and packages but no src/: there is nothing to prepare.
  if (fs.existsSync('src')) {
    install('.', 'the dependencies of package-lock.json')
    const isOld = !isEnough(process.versions.node, minimum)
    if (isOld) bringNode(minimum)
    if (process.argv.includes('--build')) build(isOld ? OWN_NODE : process.execPath)
  } else {
    requireVersion('Node.js', minimum, process.versions.node)
  }
} catch (error) {
  console.error(`Cannot prepare: ${error.message}`)
  process.exitCode = 1
}
