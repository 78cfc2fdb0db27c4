#!/usr/bin/env node
/** The server's process: configuration in, a running server out, an orderly end on SIGTERM. */
import { pino } from 'pino'
import { ConfigError, loadConfig } from './config.ts'
import { DataDirInUse } from './data-lock.ts'
import { StoreUnavailable } from './events/event-store.ts'
import { startServer } from './server.ts'

async function main(): Promise<void> {
  const config = loadConfig(process.env)
  const log = pino({ level: config.logLevel, name: 'mergelog' })
  const server = await startServer(config, log)
  const { url, newAdminPassword } = server

  console.log(`Mergelog listens on ${url}`)
  console.log(`  API      ${url}/api/v1      documentation ${url}/api/docs`)
  console.log(`  git      ${url}/{owner}/{repo}.git`)
  console.log(`  data     ${config.dataDir}`)
  if (newAdminPassword !== undefined) {
    console.log(`  admin    user "admin", password "${newAdminPassword}" (shown this once)`)
    console.log(`  try      curl -u admin:${newAdminPassword} ${url}/api/v1/user`)
    console.log(`  demo     ADMIN_PASSWORD=${newAdminPassword} npm run demo`)
  }

  let stopping = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) return
      stopping = true
      server.stop().then(
        () => process.exit(0),
        (error: unknown) => {
          log.error({ err: error }, 'the server did not stop in order')
          process.exit(1)
        },
      )
    })
  }
}

/** What an operator can mend is one line; anything else is a bug and shows where. */
function explain(error: unknown): string {
  const plain =
    error instanceof ConfigError ||
    error instanceof DataDirInUse ||
    error instanceof StoreUnavailable ||
    (error instanceof Error && 'syscall' in error)
  if (plain) return `mergelog: ${error.message}`
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

main().catch((error: unknown) => {
  console.error(explain(error))
  process.exit(1)
})
