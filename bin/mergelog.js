#!/usr/bin/env node
/**
 * `npx mergelog` in a clone: installs and builds first where that has to be, then runs the command line. Plain
 * JavaScript, because nothing may be built yet.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Runs a script with this process's terminal and signals; resolves to how it ended. */
function run(args, stdio) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio })
    const pass = (signal) => child.kill(signal)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, pass)
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      for (const passed of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.off(passed, pass)
      resolve({ code, signal })
    })
  })
}

// What preparing says must not get into what a script reads.
const prepared = await run([at('scripts/prepare.js')], ['ignore', 2, 'inherit'])
if (prepared.code !== 0) process.exit(prepared.code ?? 1)
await import('../dist/cli/mergelog.js')
