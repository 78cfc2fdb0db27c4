/** Writes to the log of a server in a process of its own, and ends in one of several ways: `node log-writer.ts WAY`. */
import { openServerLog } from '../../src/cli/server-log.ts'

const LINES = 5000
const [, , way] = process.argv
const format = process.env.LOG_FORMAT === 'pretty' ? 'pretty' : 'json'
const { log, flushed } = await openServerLog({ logLevel: 'info', logFormat: format }, false)

if (way === 'one line') log.info({ status: 200 }, 'request')
else for (let n = 0; n < LINES; n++) log.info({ n }, 'x'.repeat(100))

if (way === 'exit') process.exit(0)
if (way === 'flushed') {
  await flushed()
  process.exit(0)
}
if (way === 'error') {
  setImmediate(() => {
    throw new Error('a bug')
  })
}
if (way === 'goes on') {
  setTimeout(() => process.stderr.write('went on\n'), 50)
  setTimeout(() => {}, 100)
}
