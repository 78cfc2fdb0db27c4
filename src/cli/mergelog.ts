#!/usr/bin/env node
/** The process of the command line. */
import { runCommandLine } from './program.ts'

process.exit(await runCommandLine(process.argv.slice(2)))
