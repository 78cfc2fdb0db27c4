/** A process whose clock is ahead of that of the file system: `node clock-ahead.ts DIRECTORY`. */
import { YEAR_MS } from './set-clock.ts'

const now = Date.now()
Date.now = () => now + YEAR_MS
const { compareClocks, isAbandoned } = await import('../src/storage/disk.ts')
const before = isAbandoned(now)
await compareClocks(process.argv[2] ?? '')
process.stdout.write(`${before} ${isAbandoned(now)} ${isAbandoned(now - 26 * 3_600_000)}\n`)
