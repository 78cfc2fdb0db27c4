/** An erasure that `kill -9` cuts off between two steps. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { program } from '../../../program.ts'
import { ADMIN_PASSWORD } from '../../../start-server.ts'
import { directory, lastType, stoppedData } from './setup.ts'

t.test('an erasure that is killed between two steps is finished by the next start', async (t) => {
  const { DATA_DIR, number, path, repoId } = await stoppedData(t)
  for (const step of ['keys', 'files', 'finish']) {
    await t.test(`killed before: ${step}`, async (t) => {
      const copy = join(await directory(t), 'data')
      await cp(DATA_DIR, copy, { recursive: true })
      const args = [program('test/commands/issues/erasures/killed-erasure'), step, `${repoId}`, `${number}`]
      const { PATH, NODE_COMPILE_CACHE } = process.env
      const env = { PATH, NODE_COMPILE_CACHE, DATA_DIR: copy, PORT: '0', GRPC_PORT: '0', ADMIN_PASSWORD }
      const child = spawn(process.execPath, [...args], { env, stdio: 'inherit' })
      t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
      t.equal(await lastType(t, copy, path), 'ErasureFinished')
    })
  }
})
