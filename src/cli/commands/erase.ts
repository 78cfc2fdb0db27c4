/** `mergelog erase`: erases texts of an issue or a pull request, with or without a running server. */
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { pino } from 'pino'
import { secretCollections } from '../../auth/secrets.ts'
import { newContext } from '../../commands/execution/command-context.ts'
import { dryRunErasure, eraseTexts } from '../../commands/issues/erasures/erase.ts'
import type { ErasurePreview } from '../../commands/issues/erasures/erasure.decider.ts'
import { type Config, isShared, loadConfig } from '../../config/config.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { ownMomentsDirectory } from '../../projections/moments/builder.ts'
import { createProjector } from '../../projections/projector/projector.ts'
import { createRebuild } from '../../projections/projector/rebuild.ts'
import { READ_MODELS } from '../../projections/views/views.ts'
import { openNodes, openReadStores, withOpenTexts } from '../../server/stores.ts'
import { createWriteState } from '../../services/writes/write-state.ts'
import { openAttachmentFiles } from '../../storage/attachments/files.ts'
import { CommandFailed, WrongUse } from '../explain.ts'
import { DISCUSSION, type DiscussionName, discussionName, findDiscussion } from '../find-discussion.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openLog } from '../open-log.ts'
import { askToErase } from '../running-server.ts'
import { tokenOption, urlOption } from '../server-options.ts'
import { runOnServerOrLocal, type ServerArguments } from '../server-or-local.ts'
import { printable, styled, writeLines } from '../terminal.ts'

interface EraseArguments extends ServerArguments {
  comment?: number
  all?: boolean
  dryRun?: boolean
}

/** Maximum time in which the read models reach the end of the log, in milliseconds. */
const CATCH_UP_MS = 600_000

/**
 * Erases through the running server if there is one: only it may write its read models. A dry run resolves to the texts
 * to erase.
 */
async function erase(
  name: DiscussionName,
  { comment, all: _all, dryRun = false, ...server }: EraseArguments,
): Promise<ErasurePreview | undefined> {
  const config = loadConfig(process.env)
  const commentId = comment ?? null
  return await runOnServerOrLocal(
    config,
    server,
    (url, authorization) => askToErase(url, authorization, name, { comment: commentId, dryRun }),
    () => (dryRun ? erasedHere(config, name, commentId) : eraseHere(config, name, commentId)),
  )
}

/** Lists the texts that `eraseHere` would erase. Reads only the log. */
async function erasedHere(
  config: Config,
  name: DiscussionName,
  commentId: number | null,
): Promise<ErasurePreview> {
  const stored = await openLog(config)
  try {
    return await dryRunErasure(
      stored,
      newContext(null, 'erase'),
      await findDiscussion(stored, name),
      commentId,
    )
  } finally {
    await stored.close()
  }
}

/** Erases in this process, which must have locked the data directory. */
async function eraseHere(config: Config, name: DiscussionName, commentId: number | null): Promise<undefined> {
  const log = pino({ level: config.logLevel }, pino.destination(2))
  const stored = await openLog(config)
  // Servers on other machines may use the stores, although this process has locked the data directory here.
  const {
    nodes,
    runExclusive,
    close: leaveNodes,
  } = await openNodes(config, { log, isReady: () => false, takeOver: async () => {} })
  const { generations, readStore, secrets } = await openReadStores(config, nodes)
  const events = withOpenTexts(stored, secrets, log)
  const stopping = new AbortController()
  const projector = createProjector({
    log,
    events,
    views: readStore,
    models: READ_MODELS,
    sharing: {
      membership: nodes,
      forget: () => {},
    },
  })
  try {
    await secrets.prepare(secretCollections)
    const issue = await findDiscussion(events, name)
    await projector.start()
    if (!(await projector.caughtUp(CATCH_UP_MS)))
      throw new CommandFailed('the read models did not catch up with the log in time')
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
    const writeState = createWriteState()
    const services = {
      events,
      writeState,
      texts: events,
      secrets,
      readStore,
      projector,
      rebuilder,
      attachments,
      runExclusive,
      // A server that was killed leaves its moments.
      moments: {
        forget: async () => {
          await ownMomentsDirectory(config.dataDir, nodes)
        },
      },
    }
    await eraseTexts(services, newContext(null, 'erase'), issue, commentId)
    return undefined
  } finally {
    stopping.abort()
    await projector.stop()
    await leaveNodes()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
  }
}

async function eraseCommand(name: DiscussionName, options: EraseArguments): Promise<void> {
  const { comment, all = false } = options
  // An erasure is final, so a forgotten option must not erase all texts.
  if ((comment === undefined) !== all) throw new WrongUse('either --comment ID or --all is needed')
  const preview = await erase(name, options)
  const { owner, repo, index } = name
  const what = comment === undefined ? 'all texts' : `comment ${comment}`
  const whose = `${what} of ${printable(`${owner}/${repo}#${index}`)}`
  if (preview === undefined) {
    console.log(`${styled('green', 'Erased')} ${whose}`)
    return
  }
  console.log(`Would erase ${whose}, in ${preview.texts} events`)
  const files = preview.files.map((uuid) => `file ${printable(uuid)}`)
  await writeLines([...preview.comments.map((id) => `comment ${id}`), ...files])
}

function commentId(text: string): number {
  const id = pathNumber(text)
  if (id === undefined) throw new InvalidArgumentError('It must be the id of a comment.')
  return id
}

export function addErase(program: Command): void {
  const examples = ['mergelog erase alice/app#1 --comment 42', 'mergelog erase alice/app#1 --all --dry-run']
  program
    .command('erase')
    .summary('erase texts of an issue or a pull request for ever')
    .description(
      'erase all texts and files of an issue or a pull request that were posted until now, or those of one comment, for ' +
        'ever; a running server does it. Texts in git and in backups remain.',
    )
    .argument(DISCUSSION, 'the issue or pull request', discussionName)
    .option('--comment <id>', 'only this comment', commentId)
    .option('--all', 'all texts and files')
    .option('--dry-run', 'erase nothing; list what would be erased')
    .addOption(urlOption())
    .addOption(tokenOption("a token of the repository's admin"))
    .addHelpText(
      'after',
      usage(examples, ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...STORE_SETTINGS]),
    )
    .action(eraseCommand)
}
