/** `mergelog set-password`: gives a user a new password, also when no site admin can sign in any more. */
import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { secretCollections } from '../../auth/secrets.ts'
import { newContext } from '../../commands/execution/command-context.ts'
import { changeUser } from '../../commands/users/change.ts'
import { userIdOf } from '../../commands/users/site-admin.ts'
import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import { isShared, loadConfig } from '../../config/config.ts'
import { createAccountChanges } from '../../projections/views/account-changes.ts'
import { openReadStores } from '../../server/stores.ts'
import { createWriteState } from '../../services/writes/write-state.ts'
import { lockDataDir, STOP_THE_SERVER } from '../../storage/data-lock.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openLog, requireLog } from '../open-log.ts'
import { printable, styled } from '../terminal.ts'

interface SetPasswordArguments {
  stdin?: true
  mustChange?: true
}

async function setPassword(login: string, options: SetPasswordArguments): Promise<void> {
  const config = loadConfig(process.env)
  const given = options.stdin ? (await text(process.stdin)).replace(/\r?\n$/, '') : undefined
  const password = given ?? randomBytes(15).toString('base64url')
  // Check this before locking: the lock would leave a file in a mistyped directory.
  await requireLog(config)
  // A running server with an embedded log does not see other writers; servers with shared stores do.
  const unlock = lockDataDir(config.dataDir, isShared(config) ? 'shared' : 'alone', STOP_THE_SERVER)
  try {
    const events = await openLog(config)
    const { readStore, secrets } = await openReadStores(config)
    try {
      await secrets.prepare(secretCollections)
      const services = {
        events,
        writeState: createWriteState(),
        secrets,
        accountChanges: createAccountChanges(),
        runExclusive: createKeyedMutex(),
      }
      const id = await userIdOf(services, login)
      if (id === undefined) throw new CommandFailed(`there is no user ${login}`)
      await changeUser(services, newContext(null, 'set-password'), id, {
        password: { text: password, mustChange: options.mustChange ?? false },
      })
    } finally {
      await Promise.all([events.close(), readStore.close(), secrets.close()])
    }
  } finally {
    unlock()
  }
  console.log(`${styled('green', 'Changed')} the password of ${printable(login)}`)
  if (given === undefined) console.log(`  password "${password}" (shown only this once)`)
}

export function addSetPassword(program: Command): void {
  const examples = [
    'mergelog set-password admin',
    'mergelog set-password alice --stdin --must-change < password.txt',
  ]
  program
    .command('set-password')
    .description('give a user a new password; with an embedded store, while no server runs')
    .argument('<login>', 'the login of the user')
    .option('--stdin', 'read the password from standard input (default: a random one, which is printed)')
    .option('--must-change', 'the user must change it before doing anything else')
    .addHelpText('after', usage(examples, STORE_SETTINGS))
    .action(setPassword)
}
