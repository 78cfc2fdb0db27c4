/** The `mergelog` command line. A command is a file in `commands/` and a line here. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { addBackup } from './commands/backup.ts'
import { addDemo } from './commands/demo.ts'
import { addHistory } from './commands/history.ts'
import { addRebuild } from './commands/rebuild.ts'
import { addReplay } from './commands/replay.ts'
import { addRestore } from './commands/restore.ts'
import { addServe } from './commands/serve.ts'
import { addUpgrade } from './commands/upgrade.ts'
import { addVerify } from './commands/verify.ts'
import { explain, WrongUse } from './explain.ts'
import { printable } from './terminal.ts'

const COMMANDS = [
  addServe,
  addDemo,
  addHistory,
  addReplay,
  addUpgrade,
  addVerify,
  addRebuild,
  addBackup,
  addRestore,
]

const FAILED = 1
const WRONG_USE = 2

function version(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const { version }: { version: string } = JSON.parse(file)
  return version
}

function program(): Command {
  const mergelog = new Command('mergelog')
    .description('Git repositories, pull requests and issues in which history is the database.')
    .version(version(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureOutput({
      outputError: (text, write) => write(`mergelog: ${printable(text.replace(/^error: /, '').trim())}\n`),
    })
    .addHelpText(
      'after',
      '\nmergelog COMMAND --help tells of one command, with examples and the environment that it reads.',
    )
    .exitOverride()
  for (const add of COMMANDS) add(mergelog)
  return mergelog
}

/**
 * Runs what `args` (without node and the script) ask for. Resolves, when it is done, to the exit code: 0, 1
 * after one line (or, for a bug, a stack) on standard error, 2 when the arguments are wrong.
 */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  try {
    await program().parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    // What commander throws it has told already; help and version that were asked for are no mistake.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE
    console.error(explain(error))
    return error instanceof WrongUse ? WRONG_USE : FAILED
  }
}
