#!/usr/bin/env node
/** The process of the command line. */
import { runCommandLine } from './program.ts'

// A reader that goes (`| head`) is no failure: what is being done goes on, unread.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exit(await runCommandLine(process.argv.slice(2)))
