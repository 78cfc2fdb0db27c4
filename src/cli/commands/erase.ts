/** `mergelog erase`: erases texts of an issue or a pull request, with or without a running server. */
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { pino } from 'pino'
import { openAttachmentFiles } from '../../attachments/files.ts'
import { eraseTexts } from '../../commands/erasures/erase.ts'
import { newContext } from '../../commands/execute.ts'
import { type Config, isShared, loadConfig } from '../../config.ts'
import { pathNumber } from '../../http/path-number.ts'
import { createProjector } from '../../projections/projector.ts'
import { createRebuild } from '../../projections/rebuild.ts'
import { READ_MODELS } from '../../projections/views.ts'
import { secretCollections } from '../../rights/secrets.ts'
import { openNodes, openReadStores, withOpenTexts } from '../../stores.ts'
import { CommandFailed } from '../explain.ts'
import { DISCUSSION, type DiscussionName, discussionName, findDiscussion } from '../find-discussion.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openLog } from '../open-log.ts'
import { askToErase } from '../running-server.ts'
import { tokenOption, urlOption } from '../server-options.ts'
import { doneByServerOrHere, type ServerArguments } from '../server-or-here.ts'
import { printable, styled } from '../terminal.ts'

interface EraseArguments extends ServerArguments {
  comment?: number
}

/** How long the read models may take to come to the end of the log, in milliseconds. */
const CATCH_UP_MS = 600_000

/** A running server does it itself: only it may write its read models. */
async function erase(name: DiscussionName, { comment, ...server }: EraseArguments): Promise<void> {
  const config = loadConfig(process.env)
  const commentId = comment ?? null
  await doneByServerOrHere(
    config,
    server,
    (url, authorization) => askToErase(url, authorization, name, commentId),
    () => eraseHere(config, name, commentId),
  )
}

/** Erases in this process, which must have locked the data directory. */
async function eraseHere(config: Config, name: DiscussionName, commentId: number | null): Promise<void> {
  const log = pino({ level: config.logLevel }, pino.destination(2))
  const stored = await openLog(config)
  // Servers on other machines may use the stores, although this process has locked the data directory here.
  const {
    nodes,
    turns,
    close: leaveNodes,
  } = await openNodes(config, { log, isReady: () => false, takeOver: async () => {} })
  const { generations, readStore, secrets } = await openReadStores(config, nodes)
  const events = withOpenTexts(stored, secrets, log)
  const stopping = new AbortController()
  const projector = createProjector(log, events, readStore, READ_MODELS, undefined, {
    membership: nodes,
    forget: () => {},
  })
  try {
    await secrets.prepare(secretCollections)
    const issue = await findDiscussion(events, name)
    await projector.start()
    if (!(await projector.caughtUp(CATCH_UP_MS)))
      throw new CommandFailed('the read models do not catch up with the log')
    const rebuilder = createRebuild({
      events,
      generations,
      projector,
      exchanged: () => {},
      signal: stopping.signal,
    })
    const attachments = await openAttachmentFiles(join(config.dataDir, 'attachments'), {
      isShared: isShared(config),
    })
    const services = { events, texts: events, secrets, readStore, projector, rebuilder, attachments, turns }
    await eraseTexts(services, newContext(null, 'erase'), issue, commentId)
  } finally {
    stopping.abort()
    await projector.stop()
    await leaveNodes()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
  }
}

async function eraseCommand(name: DiscussionName, options: EraseArguments): Promise<void> {
  await erase(name, options)
  const { owner, repo, index } = name
  const what = options.comment === undefined ? 'all texts' : `comment ${options.comment}`
  console.log(`${styled('green', 'Erased')} ${what} of ${printable(`${owner}/${repo}#${index}`)}`)
}

function commentId(text: string): number {
  const id = pathNumber(text)
  if (id === undefined) throw new InvalidArgumentError('It must be the id of a comment.')
  return id
}

export function addErase(program: Command): void {
  const examples = ['mergelog erase alice/app#1', 'mergelog erase alice/app#1 --comment 42']
  program
    .command('erase')
    .summary('erase texts of an issue or a pull request for ever')
    .description(
      'erase all texts and files of an issue or a pull request that were posted until now, or those of one comment, for ' +
        'ever; a running server does it. What is in git and in backups stays.',
    )
    .argument(DISCUSSION, 'the issue or pull request', discussionName)
    .option('--comment <id>', 'only this comment', commentId)
    .addOption(urlOption())
    .addOption(tokenOption("a token of the repository's admin"))
    .addHelpText(
      'after',
      usage(examples, ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...STORE_SETTINGS]),
    )
    .action(eraseCommand)
}
