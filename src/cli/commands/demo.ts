/** `mergelog demo`: a short tour of a running server. It fails when any result is not the expected one. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { loadConfig } from '../../config/config.ts'
import { play } from '../demo/story.ts'
import { CommandFailed } from '../explain.ts'
import { usage } from '../help.ts'
import { serverUrl } from '../running-server.ts'
import { urlOption } from '../server-options.ts'

interface DemoArguments {
  url?: string
  grpc?: string
  user: string
  password?: string
  json?: true
}

async function demo(options: DemoArguments): Promise<void> {
  const config = loadConfig(process.env)
  const { user, json } = options
  const password = options.password ?? config.adminPassword
  if (password === undefined) throw new CommandFailed('ADMIN_PASSWORD or --password is needed; see --help')
  const url = (options.url ?? serverUrl(config)).replace(/\/+$/, '')
  const health = await fetch(`${url}/healthz`).catch(() => undefined)
  if (health?.status !== 200) {
    throw new CommandFailed(`no healthy server at ${url}: run "npm start" first, or name it with --url`)
  }
  const address = options.grpc ?? `${new URL(url).hostname}:${config.grpcPort}`
  const server = { url, user, password, grpc: { address, isTls: config.grpcTlsCert !== undefined } }
  const workDir = await mkdtemp(join(tmpdir(), 'mergelog-demo-'))
  try {
    const result = await play(server, workDir, json ? () => {} : (line) => console.log(line))
    if (json) console.log(JSON.stringify(result))
  } finally {
    await rm(workDir, { recursive: true, force: true })
  }
}

export function addDemo(program: Command): void {
  const examples = ['mergelog demo', 'mergelog demo --url http://127.0.0.1:8080 --grpc 127.0.0.1:9091']
  const environment = ['HOST', 'PORT', 'GRPC_PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD'] as const
  program
    .command('demo')
    .summary('play a story on a running server')
    .description(
      'play a story on a running server: a push, a review, a check that fails and then passes, a scheduled merge, ' +
        'replays, and an upgrade plan. It is in the repository "demo" of the user; a second run continues with it.',
    )
    .addOption(urlOption())
    .option('--grpc <address>', 'gRPC of that server (default: the host of the URL, and GRPC_PORT)')
    .option('--user <name>', 'login of the site admin', 'admin')
    .option('--password <password>', "that user's password (default: ADMIN_PASSWORD)")
    .option('--json', 'print only the result, as JSON')
    .addHelpText('after', usage(examples, environment))
    .action(demo)
}
