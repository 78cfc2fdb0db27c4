/** Writes the type of an object, and does nothing to end: `node type-of-object.ts REPOSITORY ID`. */
import { objectReaders } from '../../src/git/objects/object-readers.ts'

const [, , dir = '', id = ''] = process.argv
const [header] = await objectReaders.headers(dir, [id])
process.stdout.write(`${header?.type}\n`)
