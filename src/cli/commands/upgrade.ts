/** `mergelog upgrade follow`: records the upgrades that a chain node reports. */
import { type Command, InvalidArgumentError } from 'commander'
import { loadConfig } from '../../config/config.ts'
import type { UpgradeEvent } from '../../events/catalog/upgrade.ts'
import { createWriteState } from '../../services/writes/write-state.ts'
import { LOG_SETTINGS, usage } from '../help.ts'
import { openOrMakeLog } from '../open-log.ts'
import { printable, styled } from '../terminal.ts'
import { type FollowNews, follow, followOnce } from '../upgrade-follow/follow.ts'
import type { Observed } from '../upgrade-follow/follow-changes.ts'
import { openGateway } from '../upgrade-follow/follow-gateway.ts'
import { untilSignal } from './serve.ts'

interface FollowArguments {
  from: URL
  /** In seconds. */
  interval: number
  once?: true
  json?: true
}

const INTERVAL = { min: 0.1, max: 86_400, standard: 10 }

function gatewayUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new InvalidArgumentError('It must be an http:// or https:// URL without credentials.')
  }
  return url
}

function seconds(text: string): number {
  const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN
  if (value >= INTERVAL.min && value <= INTERVAL.max) return value
  throw new InvalidArgumentError(`It must be a number from ${INTERVAL.min} to ${INTERVAL.max}.`)
}

async function followCommand(options: FollowArguments): Promise<void> {
  const config = loadConfig(process.env)
  const gateway = openGateway(options.from)
  const events = await openOrMakeLog(config)
  const services = { events, writeState: createWriteState() }
  const report = (news: FollowNews) =>
    options.json ? console.log(JSON.stringify(news)) : print(news, gateway.url)
  const ending = new AbortController()
  const { signal } = ending
  void untilSignal().then(() => ending.abort())
  try {
    if (!options.once) {
      await follow(services, gateway, { intervalMs: options.interval * 1000, signal, report })
      return
    }
    const round = await followOnce(services, gateway, signal)
    report({ kind: 'found', ...round.seen })
    if (round.events.length > 0) {
      report({ kind: 'recorded', events: round.events, position: round.position })
    }
    for (const reason of round.refused) report({ kind: 'refused', reason })
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    await events.close()
  }
}

function print(news: FollowNews, url: string): void {
  const { stderr } = process
  const now = (stream: NodeJS.WriteStream) => styled('dim', new Date().toISOString(), stream)
  switch (news.kind) {
    case 'found':
      console.log(now(process.stdout), styled('green', 'found'.padEnd(17)), printable(foundIn(news)))
      break
    case 'recorded':
      for (const event of news.events) {
        const type = styled('cyan', event.type.padEnd(17))
        console.log(now(process.stdout), type, printable(detailOf(event)))
      }
      break
    case 'refused':
      console.error(now(stderr), styled('yellow', 'not recorded', stderr), printable(news.reason))
      break
    case 'healthy':
      console.error(now(stderr), styled('green', 'following', stderr), url)
      break
    case 'unhealthy':
      console.error(now(stderr), styled('red', 'retrying', stderr), `${url}: ${printable(news.reason)}`)
  }
}

/** `plan v2 at height 120, 21 module versions, authority cosmos1gov` */
function foundIn({ plan, applied, moduleVersions, authority }: Observed): string {
  const parts = [
    plan === null ? 'no plan' : `plan ${plan.name} at height ${plan.height}`,
    applied === undefined || applied.height === '0'
      ? ''
      : `${applied.name} applied at height ${applied.height}`,
    moduleVersions === undefined ? '' : `${moduleVersions.length} module versions`,
    authority === undefined ? '' : `authority ${authority}`,
  ]
  return parts.filter((part) => part !== '').join(', ')
}

function detailOf(event: UpgradeEvent): string {
  switch (event.type) {
    case 'PlanScheduled':
      return `${event.data.plan.name} at height ${event.data.plan.height}`
    case 'PlanCanceled':
      return event.data.name
    case 'PlanApplied':
      return `${event.data.name} at height ${event.data.height}`
    case 'ModuleVersionsSet':
      return event.data.moduleVersions.map(({ name, version }) => `${name} ${version}`).join(', ')
    case 'AuthorityChanged':
      return event.data.address
    case 'ConsensusStateStored':
      return `for height ${event.data.lastHeight}`
  }
}

export function addUpgrade(program: Command): void {
  const examples = [
    'mergelog upgrade follow --from http://127.0.0.1:1317',
    'mergelog upgrade follow --from https://rest.example.org --interval 60 --json',
    'mergelog upgrade follow --from http://127.0.0.1:1317 --once',
  ]
  const upgrade = program.command('upgrade').description('the upgrades of a chain').helpCommand(false)
  upgrade
    .command('follow')
    .summary('record the upgrades that a chain node reports')
    .description(
      "record the upgrades that a chain node's HTTP gateway reports, as they change, with or without a running " +
        'server. Redirects are not followed. After an error it retries for ever, with growing pauses; ' +
        'it honours `Retry-After` up to ten minutes.',
    )
    .requiredOption(
      '--from <url>',
      "the gateway, for example http://127.0.0.1:1317; Mergelog's own also works",
      gatewayUrl,
    )
    .option('--interval <seconds>', 'pause between two rounds', seconds, INTERVAL.standard)
    .option('--once', 'do one round, without retries, and print the state of the chain')
    .option('--json', 'print the news as lines of JSON')
    .addHelpText('after', usage(examples, LOG_SETTINGS))
    .action(followCommand)
}
