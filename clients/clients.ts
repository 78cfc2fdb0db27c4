/**
 * `npm run test:clients`: runs programs that were made for Gitea, unmodified, against servers that it starts. They are
 * installed into a folder of their own (see `install.ts`). Where the registry is away it says so, and succeeds.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { install } from './install.ts'

const clients = await install()
if (clients === undefined) {
  console.log('test:clients: the registry of npm cannot be reached, so the clients are not run')
} else {
  const files = process.argv.slice(2)
  const tests = files.length > 0 ? files : ['clients/*.test.ts']
  const child = spawn(process.execPath, ['test/run.ts', ...tests], {
    stdio: 'inherit',
    env: { ...process.env, CLIENTS: clients },
  })
  const [code] = await once(child, 'close')
  process.exitCode = typeof code === 'number' ? code : 1
}
