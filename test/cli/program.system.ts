import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import t from 'tap'
import { program } from '../program.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { startMergelog } from './command-line.ts'

/** Returns the Node processes that a process has started; an empty list where the system does not report them. */
async function childrenOf(pid = 0): Promise<number[]> {
  const readProc = (path: string) => readFile(`/proc/${path}`, 'latin1').catch(() => '')
  const children = (await readProc(`${pid}/task/${pid}/children`)).split(' ').filter(Boolean)
  const commands = await Promise.all(children.map((child) => readProc(`${child}/cmdline`)))
  return children.map(Number).filter((_, i) => commands[i]?.startsWith(`${process.execPath}\0`))
}

for (const signal of ['SIGTERM', 'SIGHUP'] as const) {
  t.test(
    `mergelog serve runs the server, ${signal} ends it with exit code 0, and SIGUSR1 opens no debugger`,
    async (t) => {
      const environment = {
        DATA_DIR: t.testdir(),
        ADMIN_PASSWORD,
        PORT: '0',
        GRPC_PORT: '0',
        LOG_LEVEL: 'error',
      }
      const child = startMergelog(t, ['serve'], environment)
      let stderr = ''
      child.stderr?.on('data', (chunk) => {
        stderr += chunk
      })
      const lines = createInterface({ input: child.stdout ?? process.stdin })
      const [line] = await once(lines, 'line')
      const url = /^Mergelog listens on (http:\S+)$/.exec(line)?.[1]
      t.equal((await fetch(`${url}/api/docs`)).status, 200)
      for (const pid of [child.pid ?? 0, ...(await childrenOf(child.pid))]) process.kill(pid, 'SIGUSR1')
      t.equal((await fetch(`${url}/api/docs`)).status, 200)
      child.kill(signal)
      t.same(await once(child, 'close'), [0, null])
      t.equal(stderr, '')
    },
  )
}

t.test('a debugger that Node has opened before the first line of the server is closed', async (t) => {
  const child = startMergelog(t, ['serve'], {
    DATA_DIR: t.testdir(),
    ADMIN_PASSWORD,
    PORT: '0',
    GRPC_PORT: '0',
    LOG_LEVEL: 'error',
    // The first process is the server; its children do not inherit the option.
    NODE_OPTIONS: `--inspect-port=0 --import "${program('test/cli/open-debugger')}"`,
  })
  let stderr = ''
  child.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  await once(createInterface({ input: child.stdout ?? process.stdin }), 'line')
  const [, address = ''] = /Debugger listening on ws:\/\/([\d.:]+)/.exec(stderr) ?? []
  t.not(address, '', 'it was open')
  await t.rejects(fetch(`http://${address}/json`), { cause: { code: 'ECONNREFUSED' } })
  child.kill('SIGTERM')
  t.same(await once(child, 'close'), [0, null])
})
