/**
 * Prepares a checkout: runs `npm ci` when node_modules/ differs from package-lock.json, and scripts/build.js
 * when a source is newer than the build. Runs before `npm start`, `npm test` and others. Packages may not be
 * installed yet, so it is plain JavaScript and needs only Node. Don't run it twice at the same time in one
 * checkout.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

function requireVersion(name, minimum, found) {
  const enough = found !== undefined && found.localeCompare(minimum, 'en', { numeric: true }) >= 0
  if (!enough) throw new Error(`${name} ${minimum} or later is needed; found: ${found ?? 'none'}`)
}

const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))

/**
 * Compares npm's record of installed packages with package-lock.json. Optional packages may be missing: they
 * may be for another platform.
 */
function isInstalled(record) {
  if (!fs.existsSync(record)) return false
  const present = readJson(record).packages
  return Object.entries(readJson('package-lock.json').packages)
    .filter(([path, { optional, devOptional }]) => path !== '' && !optional && !devOptional)
    .every(([path, { version }]) => present[path]?.version === version)
}

function install() {
  const record = 'node_modules/.package-lock.json'
  if (isInstalled(record)) return
  console.log('Installing the dependencies of package-lock.json (npm ci)')
  // Remove the record first: it would be wrong if the installation is cut off.
  fs.rmSync(record, { force: true })
  execFileSync('npm', ['ci', '--include=dev', '--no-audit', '--no-fund'], { stdio: 'inherit' })
}

function build() {
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
  execFileSync(process.execPath, ['scripts/build.js', 'dist.new'], { stdio: 'inherit' })
  fs.rmSync('dist', { recursive: true, force: true })
  fs.renameSync('dist.new', 'dist')
}

try {
  process.chdir(fileURLToPath(new URL('..', import.meta.url)))
  requireVersion('Node.js', readJson('package.json').engines.node.replace('>=', ''), process.versions.node)
  const git = spawnSync('git', ['--version'], { encoding: 'utf8' }).stdout
  requireVersion('git', '2.39', /\d+(\.\d+)+/.exec(git)?.[0])
  // A container image has dist/ and packages but no src/: there is nothing to prepare.
  if (fs.existsSync('src')) {
    install()
    // Tests have a build of their own: test/compile.js.
    if (!process.env.npm_lifecycle_event?.startsWith('pretest')) build()
  }
} catch (error) {
  console.error(`Cannot prepare: ${error.message}`)
  process.exitCode = 1
}
