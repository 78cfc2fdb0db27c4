/** Adds two things to the `--help` of a command: examples, and the environment variables that it reads. */
import type { Command } from 'commander'
import { type SettingName, settings } from '../config.ts'

/** The settings of every command that reads the log. */
export const LOG_SETTINGS: readonly SettingName[] = ['DATA_DIR', 'EVENTSTORE_URL']
/** The settings of every command that also reads the read models. */
export const STORE_SETTINGS: readonly SettingName[] = [...LOG_SETTINGS, 'MONGODB_URL']

/** Adds examples and environment variables to a command's help. */
export function explainUse(
  command: Command,
  examples: readonly string[],
  environment: readonly SettingName[],
): void {
  const read = settings.filter(({ name }) => environment.includes(name))
  const width = Math.max(...read.map(({ name }) => name.length))
  const lines = read.map(({ name, default: standard, meaning }) => {
    const shown = standard === '' || standard.length > 60 ? '' : ` (default: ${standard})`
    return `  ${name.padEnd(width)}  ${meaning.replaceAll('`', '')}${shown}`
  })
  const shown = examples.map((example) => `  ${example}`)
  command.addHelpText(
    'after',
    `\nExamples:\n${shown.join('\n')}\n\nEnvironment (the server reads the same):\n${lines.join('\n')}`,
  )
}
