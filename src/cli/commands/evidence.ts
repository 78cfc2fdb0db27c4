/** `mergelog evidence`: fetches the document of a merge's evidence from a server, or checks one without a server. */
import { readFile, writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { type EvidenceDocument, isEvidenceDocument } from '../../api/pull-requests/evidence-document.ts'
import { loadConfig } from '../../config/config.ts'
import { canonicalJson } from '../../domain/canonical-json.ts'
import type { VerifierKey } from '../../domain/transparency/signed-note.ts'
import { documentProblem } from '../../queries/pull-requests/evidence/check-document.ts'
import { verifierKeyArgument } from '../checkpoint-arguments.ts'
import { CommandFailed, WrongUse } from '../explain.ts'
import { type DiscussionName, discussionName } from '../find-discussion.ts'
import { usage } from '../help.ts'
import { askForEvidence, authorizationOf, serverUrl } from '../running-server.ts'
import { tokenOption, urlOption } from '../server-options.ts'
import type { ServerArguments } from '../server-or-local.ts'
import { printable, styled, writeLines } from '../terminal.ts'

interface EvidenceArguments extends ServerArguments {
  out?: string
  check?: string
  key?: string
}

async function evidenceCommand(
  name: DiscussionName | undefined,
  { out, check, key, ...server }: EvidenceArguments,
): Promise<void> {
  if ((name === undefined) === (check === undefined)) {
    throw new WrongUse('either a pull request as alice/app#1 or --check FILE is needed')
  }
  if (check !== undefined) {
    await checkFile(check, key === undefined ? undefined : await verifierKeyArgument(key))
  } else if (name !== undefined) await fetchDocument(name, server, out)
}

async function fetchDocument(
  name: DiscussionName,
  { url, token }: ServerArguments,
  out: string | undefined,
): Promise<void> {
  const config = loadConfig(process.env)
  const authorization = authorizationOf(token, config.adminPassword)
  if (authorization === undefined) {
    throw new CommandFailed('MERGELOG_TOKEN or ADMIN_PASSWORD is needed; see --help')
  }
  const text = await askForEvidence(url?.replace(/\/+$/, '') ?? serverUrl(config), authorization, name)
  if (out === undefined) {
    await writeLines([text.trimEnd()])
    return
  }
  await writeFile(out, text)
  console.error(`${styled('green', 'Wrote')} ${printable(out)}`)
}

async function checkFile(file: string, key: VerifierKey | undefined): Promise<void> {
  const document = await readDocument(file)
  const problem = await documentProblem(document, key)
  if (problem !== undefined) throw new CommandFailed(`${file} is not genuine: ${problem}`)
  await writeLines(reportOf(document, key))
}

/** @throws CommandFailed when the file cannot be read or has another form */
async function readDocument(file: string): Promise<EvidenceDocument> {
  try {
    const text = await readFile(file, 'utf8')
    const document: unknown = JSON.parse(text)
    if (!isEvidenceDocument(document)) {
      throw new CommandFailed(
        `${file} is not a document of evidence: ${isEvidenceDocument.problem(document)}`,
      )
    }
    if (canonicalJson(document) === text.trimEnd()) return document
    // Of two members with the same name, another reader may take the first.
    throw new CommandFailed(`${file} is not canonical JSON: check the document as the server gave it`)
  } catch (error) {
    if (error instanceof SyntaxError) {
      throw new CommandFailed(`${file} is not a document of evidence: ${error.message}`, { cause: error })
    }
    throw error
  }
}

function* reportOf(
  { repository, facts, events, omitted, checkpoint, unproven }: EvidenceDocument,
  key: VerifierKey | undefined,
): Generator<string> {
  const { number, merge, opened } = facts
  // Anybody can make events with hashes: only a signature shows that a log has them.
  const word = checkpoint === null || key === undefined ? 'Consistent:' : styled('green', 'Genuine:')
  yield `${word} pull request ${number}, merged by ${printable(merge.by.login)} at ${merge.at}`
  yield `Its events are those of the stream ${printable(opened.stream)}. No event proves the name of the repository, ${printable(repository)}.`
  yield `The hashes of ${events.length} events match, and the facts follow from these events.`
  if (omitted.length > 0)
    yield `${omitted.length} other events of the pull request are named by their hashes only, so nothing proves their types.`
  if (checkpoint === null)
    yield `Nothing proves that a log has these events: ${printable(unproven ?? 'no checkpoint')}.`
  else if (key === undefined) yield 'The signature of the checkpoint was not checked: --key is missing.'
  else yield `The log of ${printable(key.name)} has these events, and ${key.name}+${key.id} signed it.`
}

export function addEvidence(program: Command): void {
  const examples = [
    'mergelog evidence alice/app#1 --out evidence.json',
    'mergelog evidence --check evidence.json --key log.pub',
  ]
  program
    .command('evidence')
    .summary('show why a pull request could be merged, as a document that can be checked')
    .description(
      'fetch the document that shows why a pull request could be merged, from a running server; or check such a document ' +
        'without a server',
    )
    .argument('[owner/repo#number]', 'the pull request', discussionName)
    .option('--out <file>', 'write the document to this file; default: standard output')
    .option(
      '--check <file>',
      'check this document: its hashes, proofs and signature, and that its facts follow',
    )
    .option('--key <key>', 'the verifier key of the log, or a file with it: see "mergelog log-key"')
    .addOption(urlOption())
    .addOption(tokenOption("a token of the repository's admin"))
    .addHelpText('after', usage(examples, ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD']))
    .action(evidenceCommand)
}
