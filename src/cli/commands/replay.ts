/** `mergelog replay`: shows an issue or a pull request as it was at a moment in the past. */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { type Config, loadConfig } from '../../config/config.ts'
import type { EventStore } from '../../events/store/event-store.ts'
import { createDiskUsage } from '../../projections/installation/disk-usage.ts'
import { createViews } from '../../projections/views/views.ts'
import { issueReplayer, pullReplayer, type Replay } from '../../queries/history/replay/replayers.ts'
import { momentOf } from '../../queries/history/replay/routes.ts'
import { viewsFile } from '../../server/stores.ts'
import { createHistoryCaches } from '../../services/history/history-caches.ts'
import { argument, CommandFailed } from '../explain.ts'
import { DISCUSSION, type DiscussionName, discussionName, findDiscussion } from '../find-discussion.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openViews, withLog } from '../open-log.ts'
import { serverUrl } from '../running-server.ts'
import { aligned, printable, styled, writeLines } from '../terminal.ts'

interface ReplayArguments {
  at?: string
  revision?: string
  json?: true
}

async function replayCommand(name: DiscussionName, options: ReplayArguments): Promise<void> {
  const { json, ...when } = options
  const moment = argument(() => momentOf(when))
  const config = loadConfig(process.env)
  const replay = await withLog(config, (events) => replayed(config, events, name, moment))
  await writeLines(json ? [JSON.stringify(replay.body, undefined, 2)] : lines(name, replay))
}

/** Replays with the permissions of the site admin, who sees everything. */
async function replayed(
  config: Config,
  events: EventStore,
  name: DiscussionName,
  moment: ReturnType<typeof momentOf>,
): Promise<Replay<object>> {
  const { repoId, index, isPull } = await findDiscussion(events, name)
  if (config.mongodbUrl === undefined && !existsSync(viewsFile(config.dataDir))) {
    throw new CommandFailed('DATA_DIR: it has no read models yet: start a server on it once')
  }
  const { current: readStore } = await openViews(config)
  try {
    const views = createViews(readStore)
    const publicUrl = serverUrl(config)
    const repository = await views.repositories.get(`${repoId}`)
    if (repository === undefined) {
      throw new CommandFailed(`the read models do not have "${name.owner}/${name.repo}" yet: start a server`)
    }
    const [admin] = await views.accounts.find({ siteAdmin: true }, { limit: 1 })
    const diskUsage = createDiskUsage(readStore)
    await diskUsage.prepare()
    const historyCaches = createHistoryCaches(events)
    const services = { events, historyCaches, views, diskUsage, publicUrl: () => publicUrl }
    const replayerOf = isPull ? pullReplayer : issueReplayer
    const replayer = await replayerOf(services, { repository }, `${index}`, admin ?? null)
    return await replayer.at(moment)
  } finally {
    await readStore.close()
  }
}

function* lines({ owner, repo, index }: DiscussionName, { body, last }: Replay<object>) {
  yield styled('bold', `${owner}/${repo}#${index} after revision ${last.revision}, ${last.at}`)
  const rows = Object.entries(body).flatMap(([field, value]) => {
    const text = /(^|_)url$/.test(field) ? undefined : textOf(value)
    return text === undefined || text === '' ? [] : [[field, text]]
  })
  for (const [field = '', text = ''] of aligned(rows)) yield `${styled('cyan', field)}  ${text}`
}

/** Returns the text for a value: its login, title or name; undefined without one. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return printable(value)
  if (typeof value === 'number' || typeof value === 'boolean') return `${value}`
  if (Array.isArray(value)) return value.map(textOf).join(', ')
  if (typeof value !== 'object' || value === null) return undefined
  const fields: Record<string, unknown> = { ...value }
  const { ref, sha } = fields
  if (typeof ref === 'string' && typeof sha === 'string') return printable(`${ref} ${sha.slice(0, 10)}`)
  return textOf(fields.login ?? fields.full_name ?? fields.title ?? fields.name)
}

export function addReplay(program: Command): void {
  const examples = [
    'mergelog replay alice/app#1 --revision 0',
    'mergelog replay alice/app#1 --at 2026-03-01',
    'mergelog replay alice/app#1 --at 2026-03-01T12:00:00Z',
    'mergelog replay alice/app#1 --at 2026-03-01T12:00:00+01:00 --json',
  ]
  program
    .command('replay')
    .summary('show an issue or a pull request as it was at any moment')
    .description(
      'show an issue or a pull request as it was at any moment, with or without a running server. Its ' +
        'labels, milestone and people are also shown as they were at that moment.',
    )
    .argument(DISCUSSION, 'the issue or pull request', discussionName)
    .option(
      '--at <date>',
      'as it was at this time (RFC 3339), or at the end of a day in UTC; give this or --revision',
    )
    .option('--revision <number>', 'as it was after this event of its history; the first event is 0')
    .option('--json', 'print the JSON that the API would have answered')
    .addHelpText('after', usage(examples, [...STORE_SETTINGS, 'PUBLIC_URL']))
    .action(replayCommand)
}
