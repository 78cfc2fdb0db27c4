/** Programs of ours in processes of their own, in the language that the tests run in: `npm test` compiles both. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

const EXTENSION = extname(import.meta.url)

/** The file of a program: `src/main`. */
export const program = (name: string) => fileURLToPath(new URL(`../${name}${EXTENSION}`, import.meta.url))
