/** Programs of the project that tests start in processes of their own. */
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The file of a program: `src/main`. */
export const program = (name: string) => fileURLToPath(new URL(`../${name}.ts`, import.meta.url))

const { PATH = '', NODE_COMPILE_CACHE } = process.env

/** Its environment: settings come from the test alone. The compile cache is kept, as it halves the time of a start. */
export const PROGRAM_ENVIRONMENT: Readonly<Record<string, string>> =
  NODE_COMPILE_CACHE === undefined ? { PATH } : { PATH, NODE_COMPILE_CACHE: resolve(NODE_COMPILE_CACHE) }
