/** The `mergelog` command line. A command is a file in `commands/` and a line here. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { explain, WrongUse } from './explain.ts'
import { printable } from './terminal.ts'

/** How each of them is added, in the order of the help. The one that is asked for need not wait for the others. */
const COMMANDS = new Map<string, () => Promise<(program: Command) => void>>([
  ['serve', async () => (await import('./commands/serve.ts')).addServe],
  ['demo', async () => (await import('./commands/demo.ts')).addDemo],
  ['history', async () => (await import('./commands/history.ts')).addHistory],
  ['replay', async () => (await import('./commands/replay.ts')).addReplay],
  ['upgrade', async () => (await import('./commands/upgrade.ts')).addUpgrade],
  ['verify', async () => (await import('./commands/verify.ts')).addVerify],
  ['rebuild', async () => (await import('./commands/rebuild.ts')).addRebuild],
  ['backup', async () => (await import('./commands/backup.ts')).addBackup],
  ['restore', async () => (await import('./commands/restore.ts')).addRestore],
])

const FAILED = 1
const WRONG_USE = 2

function version(): string {
  const file = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const { version }: { version: string } = JSON.parse(file)
  return version
}

/** With the command that the arguments name, or with all of them. */
async function program([name = '']: readonly string[]): Promise<Command> {
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
  const named = COMMANDS.get(name)
  for (const load of named === undefined ? COMMANDS.values() : [named]) {
    const add = await load()
    add(mergelog)
  }
  return mergelog
}

/**
 * Runs what `args` (without node and the script) ask for. Resolves, when it is done, to the exit code: 0, 1
 * after one line (or, for a bug, a stack) on standard error, 2 when the arguments are wrong.
 */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  try {
    await (await program(args)).parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    // What commander throws it has told already; help and version that were asked for are no mistake.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE
    console.error(explain(error))
    return error instanceof WrongUse ? WRONG_USE : FAILED
  }
}
