import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { settledData } from './maintenance/backup/settled-data.ts'
import { anInstallation } from './maintenance/transfer/installations.ts'
import { PROGRAM_ENVIRONMENT, program } from './program.ts'

const run = promisify(execFile)
const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const operations = await readFile(file('docs/operations.md'), 'utf8')

t.test(
  'the commands of docs/operations.md move an installation from embedded stores to servers',
  async (t) => {
    const { dataDir } = await settledData(t)
    const to = await anInstallation(t, 'both servers')
    const block = /```sh\n(DATA_DIR=[^`]*mergelog -- export[\s\S]*?)```/.exec(operations)?.[1] ?? ''
    const script = block
      .replaceAll('/srv/old', dataDir)
      .replaceAll('/srv/new', to.DATA_DIR)
      .replaceAll('/backups/move', join(t.testdir(), 'move'))
      .replace(/'esdb:[^']*'/, `'${to.EVENTSTORE_URL}'`)
      .replace(/'mongodb:[^']*'/, `'${to.MONGODB_URL}'`)
      .replaceAll('npm run -s mergelog --', [process.execPath, program('src/cli/mergelog')].join(' '))
      // The server runs until it is stopped.
      .replace(/^npm start$/m, '')
    const { stdout } = await run('bash', ['-e', '-c', script], { env: { ...PROGRAM_ENVIRONMENT } })
    t.match(stdout, /^Export in .*\n( .*\n)+Imported the export of .*\n( .*\n)+sound /)
  },
)

t.test(
  'the commands of docs/operations.md back up on a schedule, check the backups, and restore the newest',
  async (t) => {
    const { dataDir } = await settledData(t)
    const block = /```sh\n(DATA_DIR=[^`]*backup --keep[\s\S]*?)```/.exec(operations)?.[1] ?? ''
    const script = block
      .replaceAll('/srv/mergelog', dataDir)
      .replaceAll('/srv/restored', join(t.testdir(), 'restored'))
      .replaceAll('/backups/mergelog', join(t.testdir(), 'backups'))
      .replaceAll('npm run -s mergelog --', [process.execPath, program('src/cli/mergelog')].join(' '))
    const { stdout } = await run('bash', ['-e', '-c', script], { env: { ...PROGRAM_ENVIRONMENT } })
    t.match(
      stdout,
      /^Backup in .*; 1 backup kept, 0 removed\nsound .*\nRestored the backup of .*\n( .*\n)+sound /,
    )
  },
)
