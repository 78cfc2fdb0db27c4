/** Which Mergelog this is. */
import { readFileSync } from 'node:fs'

const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
)

/** The version in `package.json`: `0.1.0`. */
export const VERSION = version
