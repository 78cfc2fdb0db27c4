#!/usr/bin/env node
/** The server's process: reads the configuration, runs the server, and stops it in order on SIGTERM. */
import { serve } from './cli/commands/serve.ts'
import { explain } from './cli/explain.ts'
import { hideKnownWarnings } from './cli/node-warnings.ts'

hideKnownWarnings()

serve().then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(explain(error))
    process.exit(1)
  },
)
