#!/usr/bin/env node
/** The entry point of the command line. */
import { hideKnownWarnings } from './node-warnings.ts'
import { runCommandLine } from './program.ts'

hideKnownWarnings()

// A closed pipe (`| head`) is not an error: the command continues without output.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exit(await runCommandLine(process.argv.slice(2)))
