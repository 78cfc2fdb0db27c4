/**
 * Runs test files: `node test/run.ts 'test/rights/*.test.ts'`. Files of a folder share a process, because most load the
 * server; a file with the words `In a process of its own:` has its own, and so has each `*.system.ts`. Prints a line
 * for each finished file, each failure with its reason, and last `N passed, N failed[, N skipped]`. Counts assertions,
 * and a process that fails without one. A test file also runs alone: `node test/access/glob.test.ts`.
 */
import { glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { run } from 'node:test'
import type { TestEvent } from 'node:test/reporters'
import { stripVTControlCharacters } from 'node:util'
import { TEMPLATE_VARIABLE, templateDir } from './server-template.ts'

/** More than cores: tests wait for disks, children and each other for a third of their time. */
const PROCESSES_AT_ONCE = availableParallelism() + 2
/** They share a process; with more, the last process would end long after the others. */
const FILES_OF_A_PROCESS = 6
/** Timeout of a process on a busy machine. */
const TIMEOUT_MS = 900_000

const shown = (text: string) => (process.stdout.isTTY ? text : stripVTControlCharacters(text))
const fileName = (file = '') => relative('.', file)

async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts = { passed: 0, failed: 0, skipped: 0 }
  /** The titles around the current report. */
  const titles: string[] = []
  /** The output of files, which may contain a load error. */
  const printed = new Map<string, string>()
  const filesWithFailures = new Set<string>()

  for await (const { type, data } of events) {
    if (type === 'test:complete' && data.name === data.file) {
      yield `${data.details.passed ? '✔' : '✖'} ${fileName(data.file)} (${(data.details.duration_ms / 1000).toFixed(1)} s)\n`
    } else if (type === 'test:start') {
      titles.splice(data.nesting, Infinity, data.name)
    } else if (type === 'test:pass' && data.details.type !== 'suite' && data.name !== data.file) {
      counts[data.skip === undefined && data.todo === undefined ? 'passed' : 'skipped'] += 1
    } else if ((type === 'test:stdout' || type === 'test:stderr') && data.file !== undefined) {
      printed.set(data.file, (printed.get(data.file) ?? '') + data.message)
    } else if (type === 'test:fail' && data.details.type !== 'suite') {
      const { file = '', name, details } = data
      const isFile = name === file
      if (!isFile || !filesWithFailures.has(file)) {
        counts.failed += 1
        filesWithFailures.add(file)
        const reason = details.error.cause instanceof Error ? details.error.cause : details.error
        const place = [fileName(file), ...(isFile ? [] : titles)].join(' > ')
        yield shown(`\n✖ ${place}\n${reason.stack ?? reason.message}\n`)
      }
      if (isFile) yield shown(`${printed.get(file) ?? ''}\n`)
    }
  }

  const { passed, failed, skipped } = counts
  if (failed > 0 || passed + skipped === 0) process.exitCode = 1
  yield `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`
}

// tap's own limit for a test, in seconds: half a minute would be too short on a busy machine.
process.env.TAP_TIMEOUT = String(TIMEOUT_MS / 1000)
// The server has a thousand modules: with the compile cache, each process loads them in two thirds of the time.
process.env.NODE_COMPILE_CACHE ??= 'node_modules/.cache/tests'
process.env[TEMPLATE_VARIABLE] = await templateDir()

interface Group {
  files: string[]
  characters: number
}

/** The folder directly in `test/` of a file: its files load similar parts of the server. */
const roleOf = (file: string) => dirname(relative('test', file)).split('/')[0] ?? ''

/**
 * Groups files by folder, and separates those with their own process. The longest group comes first, because it would
 * end last.
 */
async function groupsOf(files: readonly string[]): Promise<string[][]> {
  const groups: Group[] = []
  const open = new Map<string, Group>()
  for (const file of files) {
    const text = await readFile(file, 'utf8')
    const isAlone = file.endsWith('.system.ts') || /^\W*In a process of its own:/m.test(text)
    const role = roleOf(file)
    let group = isAlone ? undefined : open.get(role)
    if (group === undefined || group.files.length === FILES_OF_A_PROCESS) {
      group = { files: [], characters: 0 }
      groups.push(group)
      if (!isAlone) open.set(role, group)
    }
    group.files.push(file)
    group.characters += text.length
  }
  return groups.sort((a, b) => b.characters - a.characters).map(({ files }) => files)
}

/** Creates a program that runs the files one after the other: a file's tests wait until the file is loaded. */
async function programOf(group: readonly string[], directory: string, index: number): Promise<string> {
  if (group.length === 1) return group[0] ?? ''
  const steps = group.map((file) => {
    const [name, path] = [fileName(file), file].map((text) => JSON.stringify(text))
    return `await t.test(${name}, async (t) => void (await import(${path}), t.pass('is loaded')))\n`
  })
  const program = join(directory, `${roleOf(group[0] ?? '')}-${index}.test.ts`)
  await writeFile(program, `import t from 'tap'\n${steps.join('')}`)
  return program
}

const files = await Array.fromAsync(glob(process.argv.slice(2)), (file) => resolve(file))
await mkdir('.tap', { recursive: true })
// Inside of the checkout, where the programs find tap.
const directory = await mkdtemp(resolve('.tap/run-'))
const groups = await groupsOf(files.sort())
const programs = await Promise.all(groups.map((group, index) => programOf(group, directory, index)))
// Room for young objects, in MB: with Node's own, a sixth of the processor time is garbage collection.
const execArgv = ['--max-semi-space-size=32']
run({ files: programs, execArgv, concurrency: PROCESSES_AT_ONCE, timeout: TIMEOUT_MS })
  .compose(report)
  .on('end', () => void rm(directory, { recursive: true, force: true }))
  .pipe(process.stdout)
