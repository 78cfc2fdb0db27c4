/** A process that locks a data directory until it is killed: `node lock-holder.ts DIRECTORY [shared]`. */
import { lockDataDir } from '../src/storage/data-lock.ts'

const [, , dir = '', shared] = process.argv
lockDataDir(dir, shared === 'shared' ? shared : undefined)
process.stdout.write('locked\n')
setInterval(() => {}, 1000)
