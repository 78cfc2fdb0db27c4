import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { Server, Socket } from 'node:net'
import { getPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { type Launched, launch, prepareLaunches } from '../../../src/git/process/launcher.ts'
import { until } from '../../until.ts'

const env = { PATH: process.env.PATH }

const shell = (script: string, { streams = 3, givesWay = false } = {}) =>
  launch({ program: 'sh', args: ['-c', script], env, streams, givesWay })

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const outputOf = async ({ streams: [, stdout] }: Launched) => (stdout === undefined ? '' : await text(stdout))

t.test(
  'processes are started by another process, so that the event loop does not wait for a fork',
  async (t) => {
    await prepareLaunches()
    const one = await shell('echo $PPID')
    const launcher = Number(await outputOf(one))
    t.ok(launcher > 1)
    t.not(launcher, process.pid)
    t.strictSame(await one.exited, { code: 0, signal: null })
    t.equal(Number(await outputOf(await shell('echo $PPID'))), launcher, 'one launcher starts all')
  },
)

t.test('a process has its streams, its exit code and its signal', async (t) => {
  const asks = await shell('cat; read -r answer <&3; echo "answer: $answer" >&3; echo oops >&2; exit 3', {
    streams: 4,
  })
  const [stdin, stdout, stderr, channel] = asks.streams
  const input = 'x'.repeat(1_000_000)
  stdin?.end(input)
  channel?.write('yes\n')
  t.strictSame(await Promise.all([stdout, stderr, channel].map((one) => (one ? text(one) : ''))), [
    input,
    'oops\n',
    'answer: yes\n',
  ])
  t.strictSame(await asks.exited, { code: 3, signal: null })

  const endless = await shell('exec sleep 1000')
  process.kill(endless.pid, 'SIGTERM')
  t.strictSame(await endless.exited, { code: null, signal: 'SIGTERM' })
  await t.rejects(launch({ program: 'no-such-program', args: [], env, streams: 3, givesWay: false }), {
    message: /ENOENT/,
  })
})

t.test(
  'a low-priority process gets processor time after others',
  { skip: (process.platform !== 'linux' || getPriority() >= 5) && 'needs Linux, and a normal priority' },
  async (t) => {
    const low = await shell('exec sleep 1000', { givesWay: true })
    await until('its priority is low', async () => getPriority(low.pid) === 5)
    const normal = await shell('while :; do :; done')
    const worker = await shell('(while :; do :; done) & echo $!; wait', { givesWay: true })
    const [, stdout] = worker.streams
    if (stdout === undefined) throw new Error('a stream is missing')
    const helper = Number((await once(stdout, 'data')).join(''))
    await until('who works long gives way to who is short', async () => getPriority(helper) === 15)
    t.equal(getPriority(worker.pid), 15, 'with all that it has started')
    t.equal(getPriority(low.pid), 5, 'who only waits does not')
    t.equal(getPriority(normal.pid), getPriority(), 'nor who never gives way')
    for (const { pid, exited } of [low, normal, worker]) {
      process.kill(-pid, 'SIGKILL')
      await exited
    }
  },
)

t.test(
  'after the removal of its socket, another launcher starts the next process; running ones continue',
  async (t) => {
    const before = process.env.TMPDIR
    const directory = await mkdtemp(join(tmpdir(), 'cleaned-'))
    t.teardown(async () => {
      if (before === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = before
      await rm(directory, { recursive: true, force: true })
    })
    process.env.TMPDIR = directory
    const orphan = await shell('exec sleep 1000')
    process.kill(Number(await outputOf(await shell('echo $PPID'))), 'SIGKILL')
    await orphan.exited
    const old = Number(await outputOf(await shell('echo $PPID')))
    const running = await shell('read -r line; echo "$line"')
    const cleaned = await readdir(directory)
    t.equal(cleaned.length, 1, 'the next one has its socket here')
    for (const name of cleaned) await rm(join(directory, name), { recursive: true })

    const next = await Promise.all([1, 2, 3].map(() => shell('echo $PPID')))
    const launchers = new Set(await Promise.all(next.map(outputOf)))
    t.equal(launchers.size, 1, 'one for all')
    t.notOk(launchers.has(`${old}\n`))
    running.streams[0]?.end('it goes on\n')
    t.equal(await outputOf(running), 'it goes on\n')
    t.strictSame(await running.exited, { code: 0, signal: null })
    await until('the old launcher has ended', () => !isRunning(old))
  },
)

t.test('a process whose streams the server could not open is not waited for, and ends', async (t) => {
  const launcher = Number(await outputOf(await shell('echo $PPID')))
  // As the system does when this process may not open another file.
  const { emit } = Server.prototype
  let refused = 0
  t.intercept(Server.prototype, 'emit', {
    value(this: Server, name: string, ...args: unknown[]) {
      const [socket] = args
      if (name !== 'connection' || !(socket instanceof Socket) || ++refused > 2) {
        return Reflect.apply(emit, this, [name, ...args])
      }
      socket.destroy()
      return true
    },
  })
  const file = join(t.testdir(), 'pid')
  const code = 'EMFILE'
  await t.rejects(shell(`echo $$ > ${file}; exec sleep 1000`), { message: /streams were cut off/, code })
  await t.rejects(launch({ program: 'no-such-program', args: [], env, streams: 3, givesWay: false }), {
    code: 'ENOENT',
  })
  const pid = Number(await readFile(file, 'utf8').catch(() => '0'))
  if (pid > 0) await until('it has ended', () => !isRunning(pid))
  t.equal(Number(await outputOf(await shell('echo $PPID'))), launcher, 'the next one is started as before')
})

t.test('however many processes a busy server starts at once, each gets its streams', async (t) => {
  let isBusy = true
  // The streams arrive one by one, one in each iteration of the event loop.
  function holdLoop(): void {
    const end = performance.now() + 60
    while (performance.now() < end);
    if (isBusy) setImmediate(holdLoop)
  }
  setImmediate(holdLoop)
  const started = await Promise.allSettled(Array.from({ length: 16 }, () => shell('echo here')))
  isBusy = false
  for (const one of started) {
    if (one.status === 'rejected') t.fail(`${one.reason}`)
    else t.equal(await outputOf(one.value), 'here\n')
  }
})

t.test('when the launcher is killed, its processes end, and another one starts the next', async (t) => {
  const launcher = Number(await outputOf(await shell('echo $PPID')))
  const orphan = await shell('exec sleep 1000')
  process.kill(launcher, 'SIGKILL')
  t.equal(await outputOf(orphan), '', 'its output ends with it')
  t.strictSame(await orphan.exited, { code: null, signal: 'SIGKILL' })
  const next = await shell('echo $PPID')
  t.not(Number(await outputOf(next)), launcher)
})

t.test('signals for all processes of a terminal do not end the launcher', async (t) => {
  const launcher = Number(await outputOf(await shell('echo $PPID')))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(launcher, signal)
  const running = await shell('echo $PPID; read -r line')
  const [stdin, stdout] = running.streams
  if (stdin === undefined || stdout === undefined) throw new Error('a stream is missing')
  const [first] = await once(stdout, 'data')
  t.equal(Number(first), launcher)
  stdin.end('done\n')
  t.strictSame(await running.exited, { code: 0, signal: null })
})
