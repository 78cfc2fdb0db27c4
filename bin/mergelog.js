#!/usr/bin/env node
/**
 * `npm run mergelog` in a clone: installs and builds if needed, then runs the command line. Plain JavaScript, because
 * there may be no build yet, and Node may be old.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Runs a script with this process's terminal and signals. Resolves to its exit code and signal. */
function run(program, args, stdio) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio })
    // A terminal sends SIGINT to both processes.
    const pass = (signal) => (signal === 'SIGINT' && process.stdin.isTTY ? undefined : child.kill(signal))
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, pass)
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      for (const passed of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.off(passed, pass)
      resolve({ code, signal })
    })
  })
}

// Output of the preparation goes to standard error: a script may read standard output.
const prepared = await run(process.execPath, [at('scripts/prepare.js'), '--build'], ['ignore', 2, 'inherit'])
if (prepared.code !== 0) process.exit(prepared.code ?? 1)

const main = at('dist/cli/mergelog.js')
const minimum = JSON.parse(readFileSync(at('package.json'), 'utf8')).engines.node.replace('>=', '')
if (process.versions.node.localeCompare(minimum, 'en', { numeric: true }) < 0) {
  const { code, signal } = await run(
    at('node_modules/.bin/node'),
    [main, ...process.argv.slice(2)],
    'inherit',
  )
  if (signal !== null) process.kill(process.pid, signal)
  process.exitCode = code ?? 1
} else {
  await import(main)
}
