/**
 * Makes a checkout ready to run: installs from the lockfile and builds, each only when it has to.
 * Runs before `npm start`, `npm test`, `npm run demo` and `npm run bench`; nothing is installed yet
 * when it does, so it is plain JavaScript and needs Node alone.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const LEAST_GIT = '2.39'
const WAIT_MS = 10 * 60_000

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const modules = join(root, 'node_modules')
const dist = join(root, 'dist')
const lockfile = join(root, 'package-lock.json')
const npmsRecord = join(modules, '.package-lock.json')
const installStamp = join(modules, '.mergelog-stamp')
const buildStamp = join(dist, '.mergelog-stamp')
const compiler = join(modules, 'typescript', 'bin', 'tsc')
const tap = join(modules, 'tap', 'dist', 'esm', 'run.mjs')
const tapSettings = join(root, '.taprc')
const tapStamp = join(modules, '.mergelog-tap')
const platform = `${process.platform}-${process.arch}`

/** True where dev dependencies must stay out: as npm itself decides it. */
const production = process.env.NODE_ENV === 'production' || /\bdev\b/.test(process.env.npm_config_omit ?? '')

/** True before `npm test`: then the test runner has to be ready, too. */
const testing = process.env.npm_lifecycle_event === 'pretest'

/** Why the checkout cannot be made ready, in one line; `output` is what the failing command printed. */
class CannotPrepare extends Error {
  constructor(message, output = '') {
    super(message)
    this.output = output
  }
}

/** True when dotted version `have` is `least` or later. */
function atLeast(have, least) {
  const [ours, theirs] = [have, least].map((version) => version.split('.').map(Number))
  const at = theirs.findIndex((part, i) => part !== (ours[i] ?? 0))
  return at === -1 || (ours[at] ?? 0) > theirs[at]
}

function checkNode() {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const least = /^>=\s*([\d.]+)$/.exec(engines?.node ?? '')?.[1]
  if (least === undefined) throw new CannotPrepare('package.json must give engines.node as ">=VERSION"')
  if (!atLeast(process.versions.node, least)) {
    throw new CannotPrepare(`Node.js ${least} or later is needed; this is ${process.versions.node}`)
  }
}

async function checkGit() {
  const { code, output } = await run('git', ['--version']).catch(() => ({ code: -1, output: '' }))
  const version = /version (\d+(?:\.\d+)+)/.exec(output)?.[1]
  if (code !== 0 || version === undefined) {
    throw new CannotPrepare(`git ${LEAST_GIT} or later is needed; none was found on the PATH`)
  }
  if (!atLeast(version, LEAST_GIT)) {
    throw new CannotPrepare(`git ${LEAST_GIT} or later is needed; this is ${version}`)
  }
}

/** Runs a command in the checkout and gives its exit code and all that it printed. */
function run(command, args, started = () => {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
      })
    }
    child.on('spawn', () => started(child.pid))
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code: signal ?? code, output }))
  })
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

const sha256 = (data) => createHash('sha256').update(data).digest('hex')

/**
 * What node_modules holds of the lockfile: 'all', 'production' (all but the dev dependencies), or
 * 'none'. Where our stamp does not answer, npm's own record does: someone may have run npm by hand.
 */
function installed() {
  if (!existsSync(lockfile)) throw new CannotPrepare('package-lock.json is missing')
  const text = readFileSync(lockfile)
  const stamp = readJson(installStamp)
  if (stamp !== undefined && stamp.platform !== platform) return 'none'
  if (stamp?.lockfile === sha256(text)) return stamp.holds
  const present = readJson(npmsRecord)?.packages
  if (present === undefined) return 'none'
  const wanted = JSON.parse(text).packages
  const same = (path) =>
    present[path]?.version === wanted[path]?.version && present[path]?.integrity === wanted[path]?.integrity
  if (!Object.keys(present).every(same)) return 'none'
  const absent = Object.keys(wanted).filter((path) => path !== '' && present[path] === undefined)
  const needed = absent.map((path) => wanted[path]).filter((entry) => !entry.optional && !entry.devOptional)
  if (needed.some((entry) => !entry.dev)) return 'none'
  return needed.length > 0 ? 'production' : 'all'
}

function mustInstall() {
  return production ? installed() === 'none' : installed() !== 'all'
}

async function install(started) {
  console.log('Installing the dependencies of package-lock.json (npm ci)')
  // Gone before npm begins: a record must never outlive what it records.
  rmSync(installStamp, { force: true })
  rmSync(npmsRecord, { force: true })
  const args = ['ci', '--no-audit', '--no-fund', ...(production ? ['--omit=dev'] : [])]
  const { code, output } = await run('npm', args, started).catch((error) => {
    throw new CannotPrepare(`npm could not be started: ${error.message}`)
  })
  if (code !== 0) throw new CannotPrepare(`npm ci failed (${code})`, output)
  const stamp = {
    lockfile: sha256(readFileSync(lockfile)),
    platform,
    holds: production ? 'production' : 'all',
  }
  writeFileSync(installStamp, JSON.stringify(stamp))
}

/** Every file under a directory, as sorted paths; none when it does not exist. */
function filesUnder(directory) {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(directory, entry.name)
      return entry.isDirectory() ? filesUnder(path) : [path]
    })
    .sort()
}

/** One hash of all that a build is made from: changed, added and removed files all change it. */
function sourceHash() {
  const configs = readdirSync(root).filter((name) => /^tsconfig.*\.json$/.test(name))
  const files = [...configs.sort(), 'package-lock.json'].map((name) => join(root, name))
  const hash = createHash('sha256')
  for (const file of [...files, ...filesUnder(join(root, 'src')), ...filesUnder(join(root, 'proto'))]) {
    const content = readFileSync(file)
    hash.update(`${file.slice(root.length)}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex')
}

/** False also where there is nothing to build from: an image carries dist/ without src/. */
function mustBuild() {
  return existsSync(join(root, 'src')) && readJson(buildStamp)?.sources !== sourceHash()
}

async function build(started) {
  console.log('Building src/ into dist/ (tsc)')
  const sources = sourceHash()
  rmSync(buildStamp, { force: true })
  // With --noEmitOnError a build that fails leaves the last good one as it was.
  const args = [compiler, '-p', 'tsconfig.build.json', '--noEmitOnError', '--listEmittedFiles']
  const { code, output } = await run(process.execPath, args, started)
  if (code !== 0) throw new CannotPrepare(`the build failed (${code})`, output)
  removeAllBut(new Set(Array.from(output.matchAll(/^TSFILE: (.+?)\r?$/gm), ([, file]) => join(file))))
  writeFileSync(buildStamp, JSON.stringify({ sources }))
}

function tapHash() {
  return sha256(sha256(readFileSync(tapSettings)) + sha256(readFileSync(lockfile)))
}

function mustBuildTap() {
  return testing && existsSync(tap) && existsSync(tapSettings) && readJson(tapStamp)?.settings !== tapHash()
}

/**
 * tap compiles the plugins that .taprc names into itself. Left to `tap run`, that happens while the
 * first run after an install already works with the plugins it came with, and so fails every test.
 */
async function buildTap(started) {
  console.log('Building tap with the plugins of .taprc (tap build)')
  const { code, output } = await run(process.execPath, [tap, 'build'], started)
  if (code !== 0) throw new CannotPrepare(`tap build failed (${code})`, output)
  writeFileSync(tapStamp, JSON.stringify({ settings: tapHash() }))
}

/** Removes what earlier builds left in dist/: a module whose source is gone must not be importable. */
function removeAllBut(emitted) {
  for (const file of filesUnder(dist)) {
    const ours = file.startsWith(`${dist}${sep}.`)
    if (emitted.has(file) || ours) continue
    rmSync(file)
    for (let parent = dirname(file); parent !== dist && readdirSync(parent).length === 0; ) {
      rmdirSync(parent)
      parent = dirname(parent)
    }
  }
}

function alive(pid) {
  // A holder with our own id is a dead one of an earlier container, where ids begin anew.
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** The turn taken last: its number, its file, and whether anyone still works under it. */
function lastTurn() {
  const numbers = readdirSync(dist).map((name) => Number(/^\.turn-(\d+)$/.exec(name)?.[1] ?? 0))
  const number = Math.max(0, ...numbers)
  const file = join(dist, `.turn-${number}`)
  if (number === 0) return { number, file, held: false }
  let text
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    // Removed since we looked: there is a higher number by now.
    if (error.code === 'ENOENT') return lastTurn()
    throw error
  }
  // Empty: its maker is between creating and writing it.
  const held =
    text === '' ||
    (text !== 'free' &&
      text
        .trim()
        .split('\n')
        .some((pid) => alive(Number(pid))))
  return { number, file, held }
}

/**
 * Runs `work` while no other prepare of this checkout works. Turns are numbered files that hold the
 * ids of who works; a turn is over when it says so or when all of them are dead, and then exactly
 * one process can create the next number. (A single lock file could be taken from a dead holder by
 * two at once, each removing what it believes to be the dead one's.) `work` gets a function that
 * adds a child's id, so that an npm that outlives a killed parent is waited for, too.
 */
async function inTurn(work) {
  mkdirSync(dist, { recursive: true })
  const deadline = Date.now() + WAIT_MS
  for (let told = false; ; ) {
    const last = lastTurn()
    if (last.held) {
      if (Date.now() > deadline) {
        throw new CannotPrepare(`another prepare seems stuck; if none runs, delete ${last.file}`)
      }
      if (!told) console.log('Waiting for another prepare of this checkout to finish')
      told = true
      await delay(100)
      continue
    }
    const mine = join(dist, `.turn-${last.number + 1}`)
    try {
      writeFileSync(mine, `${process.pid}\n`, { flag: 'wx' })
    } catch (error) {
      if (error.code === 'EEXIST') continue
      throw error
    }
    // Others may have taken and ended turns since we looked, and removed the number that we made anew.
    if (lastTurn().number > last.number + 1) {
      rmSync(mine)
      continue
    }
    rmSync(last.file, { force: true })
    try {
      return await work((pid) => appendFileSync(mine, `${pid}\n`))
    } finally {
      writeFileSync(mine, 'free')
    }
  }
}

/** A production install has no compiler, and must not fetch one to make up for a missing build. */
function checkCompiler() {
  if (production && mustBuild() && (mustInstall() || !existsSync(compiler))) {
    throw new CannotPrepare(
      'dist/ is missing or older than src/, and a production install has no compiler: ' +
        'run "npm ci --include=dev && NODE_ENV=development npm run build" first',
    )
  }
}

async function prepare() {
  checkNode()
  await checkGit()
  if (!mustInstall() && !mustBuild() && !mustBuildTap()) return
  checkCompiler()
  await inTurn(async (started) => {
    if (mustInstall()) await install(started)
    if (mustBuild()) await build(started)
    if (mustBuildTap()) await buildTap(started)
  })
}

try {
  await prepare()
} catch (error) {
  if (error.output) process.stderr.write(error.output)
  console.error(error instanceof CannotPrepare ? `Cannot prepare: ${error.message}` : error)
  process.exitCode = 1
}
