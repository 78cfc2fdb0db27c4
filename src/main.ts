#!/usr/bin/env node
/** The server's process: configuration in, a running server out, an orderly end on SIGTERM. */
import { pino } from 'pino'
import { ConfigError, loadConfig } from './config.ts'
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

main().catch((error: unknown) => {
  const message =
    error instanceof ConfigError ? error.message : error instanceof Error ? error.stack : String(error)
  console.error(message)
  process.exit(1)
})
