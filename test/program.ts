/** Programs of ours that tests start in processes of their own. */
import { fileURLToPath } from 'node:url'

/** The file of a program: `src/main`. */
export const program = (name: string) => fileURLToPath(new URL(`../${name}.ts`, import.meta.url))
