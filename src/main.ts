#!/usr/bin/env node
/** The server's process: configuration in, a running server out, an orderly end on SIGTERM. */
import { serve } from './cli/commands/serve.ts'
import { explain } from './cli/explain.ts'

serve().then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(explain(error))
    process.exit(1)
  },
)
