/** `mergelog history`: the events of one issue or pull request, read from the log. */
import type { Command } from 'commander'
import { historyJson } from '../../api/history/history.ts'
import { loadConfig } from '../../config/config.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import { discussionStream } from '../../events/streams.ts'
import { historyFilter } from '../../queries/history/history-filter.ts'
import { BEGINNING, streamHistory } from '../../queries/history/history-source.ts'
import { createHistoryCaches } from '../../services/history/history-caches.ts'
import { argument } from '../explain.ts'
import { DISCUSSION, type DiscussionName, discussionName, findDiscussion } from '../find-discussion.ts'
import { LOG_SETTINGS, usage } from '../help.ts'
import { withLog } from '../open-log.ts'
import { aligned, lineWidth, printable, shortened, styled, writeLines } from '../terminal.ts'

interface HistoryArguments {
  type?: string
  actor?: string
  since?: string
  before?: string
  json?: true
}

async function historyCommand(name: DiscussionName, options: HistoryArguments): Promise<void> {
  const { json, ...query } = options
  const filter = argument(() => historyFilter(query))
  await withLog(loadConfig(process.env), async (events) => {
    const stream = discussionStream(await findDiscussion(events, name))
    const found = streamHistory({ events, historyCaches: createHistoryCaches(events) }, stream).read(
      filter,
      BEGINNING,
    )
    await writeLines(json ? jsonLines(found) : rows(found))
  })
}

async function* jsonLines(found: AsyncIterable<RecordedEvent>) {
  for await (const event of found) yield historyJson(event)
}

async function* rows(found: AsyncIterable<RecordedEvent>) {
  const width = lineWidth()
  const cells = await Array.fromAsync(found, (event) => cellsOf(event, width))
  for (const [revision = '', at = '', who = '', type = '', data = ''] of aligned(cells)) {
    // When names fill the line, drop the data rather than the event type.
    const dataWidth = Math.max(0, width - revision.length - at.length - who.length - type.length - 4)
    const begin = `${styled('dim', `${revision} ${at}`)} ${who} ${styled('cyan', type)}`
    yield dataWidth === 0 ? begin : `${begin} ${styled('dim', shortened(data, dataWidth))}`
  }
}

function cellsOf({ revision, type, data, metadata }: RecordedEvent, width: number): string[] {
  const { at, actor } = metadata
  const shown = shortened(printable(JSON.stringify(data)), width)
  return [`${revision}`, at, printable(actor?.login ?? '-'), printable(type), shown]
}

export function addHistory(program: Command): void {
  const examples = [
    'mergelog history alice/app#1',
    'mergelog history alice/app#1 --type CommentAdded,StatusChanged --actor bob',
    'mergelog history alice/app#1 --json | jq .type',
  ]
  program
    .command('history')
    .summary('print the events of an issue or a pull request')
    .description('print the events of an issue or a pull request, with or without a running server')
    .argument(DISCUSSION, 'the issue or pull request', discussionName)
    .option('--type <types>', 'only events of these types, separated by commas')
    .option('--actor <login>', 'only events of this user')
    .option('--since <date-time>', 'only events at or after this time (RFC 3339)')
    .option('--before <date-time>', 'only events at or before this time (RFC 3339)')
    .option('--json', 'print each event whole, as a line of JSON')
    .addHelpText('after', usage(examples, LOG_SETTINGS))
    .action(historyCommand)
}
