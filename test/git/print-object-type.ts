/** Prints the type of an object, and does not close its reader: `node print-object-type.ts REPOSITORY ID`. */
import { objectReaders } from '../../src/git/objects/object-readers.ts'

const [, , dir = '', id = ''] = process.argv
const [header] = await objectReaders.headers(dir, [id])
process.stdout.write(`${header?.type}\n`)
