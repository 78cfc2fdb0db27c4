/** The `mergelog` command line. Each command is a file in `commands/` and a line here. */
import { Command, CommanderError } from 'commander'
import { makePrivateFiles } from '../storage/private-files.ts'
import { VERSION } from '../storage/version.ts'
import { explain, WrongUse } from './explain.ts'
import { printable } from './terminal.ts'

/** Loads the function that adds a command, by name and in the order of the help. Only the named command is loaded. */
const COMMANDS = new Map<string, () => Promise<(program: Command) => void>>([
  ['serve', async () => (await import('./commands/serve.ts')).addServe],
  ['demo', async () => (await import('./commands/demo.ts')).addDemo],
  ['history', async () => (await import('./commands/history.ts')).addHistory],
  ['replay', async () => (await import('./commands/replay.ts')).addReplay],
  ['evidence', async () => (await import('./commands/evidence.ts')).addEvidence],
  ['upgrade', async () => (await import('./commands/upgrade.ts')).addUpgrade],
  ['set-password', async () => (await import('./commands/set-password.ts')).addSetPassword],
  ['erase', async () => (await import('./commands/erase.ts')).addErase],
  ['verify', async () => (await import('./commands/verify.ts')).addVerify],
  ['log-key', async () => (await import('./commands/log-key.ts')).addLogKey],
  ['rebuild', async () => (await import('./commands/rebuild.ts')).addRebuild],
  ['maintain', async () => (await import('./commands/maintain.ts')).addMaintain],
  ['backup', async () => (await import('./commands/backup.ts')).addBackup],
  ['restore', async () => (await import('./commands/restore.ts')).addRestore],
  ['export', async () => (await import('./commands/export.ts')).addExport],
  ['import', async () => (await import('./commands/import.ts')).addImport],
])

const FAILED = 1
const WRONG_USE = 2

/** Returns the program with the named command, or with all commands without a known name. */
async function program([name = '']: readonly string[]): Promise<Command> {
  const mergelog = new Command('mergelog')
    .description('Git repositories, pull requests and issues in which history is the database.')
    .version(VERSION, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureOutput({
      outputError: (text, write) => write(`mergelog: ${printable(text.replace(/^error: /, '').trim())}\n`),
    })
    .addHelpText(
      'after',
      '\nmergelog COMMAND --help shows the help of one command, with examples and environment variables.',
    )
    .exitOverride()
  const named = COMMANDS.get(name)
  for (const load of named === undefined ? COMMANDS.values() : [named]) {
    const add = await load()
    add(mergelog)
  }
  return mergelog
}

/**
 * Runs the command in `args` (without node and the script). Resolves to the exit code: 0 on success, 1 after
 * an error, 2 when the arguments are wrong. Prints errors to standard error: one line, or a stack for a bug.
 */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  makePrivateFiles()
  try {
    await (await program(args)).parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    // Commander has printed its error. It also throws after --help and --version, with exit code 0.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE
    console.error(explain(error))
    return error instanceof WrongUse ? WRONG_USE : FAILED
  }
}
