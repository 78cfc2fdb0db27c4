/** The end of each command's `--help`. */
import { type SettingName, settings } from '../config/setting-table.ts'

/** The settings of every command that reads the log. */
export const LOG_SETTINGS: readonly SettingName[] = ['DATA_DIR', 'EVENTSTORE_URL']
/** The settings of every command that also reads the read models. */
export const STORE_SETTINGS: readonly SettingName[] = [...LOG_SETTINGS, 'MONGODB_URL']

/** Returns the examples, and the environment variables that the command reads. */
export function usage(examples: readonly string[], environment: readonly SettingName[]): string {
  const read = settings.filter(({ name }) => environment.includes(name))
  const width = Math.max(...read.map(({ name }) => name.length))
  const lines = read.map(({ name, default: standard, meaning }) => {
    const shown = standard === '' || standard.length > 60 ? '' : ` (default: ${standard})`
    return `  ${name.padEnd(width)}  ${meaning.replaceAll('`', '')}${shown}`
  })
  const shown = examples.map((example) => `  ${example}`)
  return `\nExamples:\n${shown.join('\n')}\n\nEnvironment (the server reads the same):\n${lines.join('\n')}`
}
