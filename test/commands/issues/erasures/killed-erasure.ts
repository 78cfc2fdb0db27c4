/**
 * Starts a server on DATA_DIR, erases all texts of an issue, and kills its own process (SIGKILL) before a step:
 * `keys`, `files` or `finish`. Arguments: the step, the repository, the number.
 */
import { pino } from 'pino'
import { newContext } from '../../../../src/commands/execution/command-context.ts'
import { type ErasureServices, eraseTexts } from '../../../../src/commands/issues/erasures/erase.ts'
import { loadConfig } from '../../../../src/config/config.ts'
import { startServer } from '../../../../src/server/server.ts'

const [step = '', repoId = '', index = ''] = process.argv.slice(2)

const killed = (): never => {
  process.kill(process.pid, 'SIGKILL')
  // The signal comes before the next line of JavaScript.
  for (;;);
}

const { services, recovered } = await startServer(loadConfig(process.env), pino({ level: 'error' }))
await recovered
const { texts, attachments, events } = services
const wrapped: ErasureServices = {
  ...services,
  ...(step === 'keys' && { texts: { ...texts, keys: { ...texts.keys, erase: killed } } }),
  ...(step === 'files' && { attachments: { ...attachments, remove: killed } }),
  ...(step === 'finish' && {
    events: {
      ...events,
      append: (stream, added, expected) =>
        added.some(({ type }) => type === 'ErasureFinished')
          ? killed()
          : events.append(stream, added, expected),
    },
  }),
}
const issue = { repoId: Number(repoId), index: Number(index), isPull: false }
await eraseTexts(wrapped, newContext({ id: 2, login: 'alice' }, 'killed'), issue, null)
process.exit(1)
