/**
 * The program of the launcher: starts processes, connects their streams to sockets, reports their ends, and lowers the
 * priority of those with `givesWay`. It imports only Node, so that it stays small.
 */
import { spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import inspector from 'node:inspector'
import { connect, type Socket } from 'node:net'
import { setPriority } from 'node:os'
import { dirname } from 'node:path'
import { Duplex } from 'node:stream'
import type { Message, Request } from './launcher.ts'

const [, , path = ''] = process.argv
/** Priority of processes with `givesWay`, at first and after long work; see the decision about the launcher. */
const LOW = 5
const LOWEST = 15
const LONG_TICKS = 30
const POLL_MS = 250

process.umask(0o077)
// The parent may get these signals together with its process group.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1']) process.on(signal, () => {})
// Node may have opened the debugger before this line.
closeDebugger()
setImmediate(closeDebugger)
// The launcher ends with its parent.
process.on('disconnect', () => {
  rmSync(dirname(path), { recursive: true, force: true })
  process.exit()
})

function closeDebugger(): void {
  if (inspector.url() !== undefined) inspector.close()
}

/** The server accepts no streams: it has too many open files. */
const cutOff = () => Object.assign(new Error('its streams were cut off'), { code: 'EMFILE' })

function open(id: number, number: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const stream = connect(path)
    stream.on('error', reject)
    const head = String(id).padStart(12, '0') + number
    stream.write(head, (error) => (error ? reject(cutOff()) : resolve(stream)))
  })
}

interface GivingWay {
  pid: number
  priority: number
  /** Whether its session has the priority. */
  isSet: boolean
}

const giving = new Map<number, GivingWay>()
let pollTimer: NodeJS.Timeout | undefined

const errorOf = (thrown: unknown): NodeJS.ErrnoException =>
  thrown instanceof Error ? thrown : new Error(String(thrown))

/**
 * Sets the priority of the process, and of its session: the second one matters where each session gets its share of the
 * processors.
 */
function setPriorities(one: GivingWay): void {
  for (const pid of withChildren(one.pid)) {
    try {
      setPriority(pid, one.priority)
    } catch {}
  }
  one.isSet = true
  // The system limits the rate of these changes. A rejected one is retried.
  try {
    writeFileSync(`/proc/${one.pid}/autogroup`, String(one.priority))
  } catch (error) {
    one.isSet = errorOf(error).code !== 'EAGAIN'
  }
}

function withChildren(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
    return [pid, ...children.split(' ').filter(Boolean).map(Number).flatMap(withChildren)]
  } catch {
    return [pid]
  }
}

/** Returns the processor time of a process and of its ended children, in ticks of 10 ms. */
function ticksOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0)
  } catch {
    return 0
  }
}

function giveWay(id: number, pid: number): void {
  const one = { pid, priority: LOW, isSet: false }
  giving.set(id, one)
  setPriorities(one)
  pollTimer ??= setInterval(poll, POLL_MS)
}

function poll(): void {
  const changed: GivingWay[] = []
  for (const one of giving.values()) {
    const isLong = () => withChildren(one.pid).reduce((sum, pid) => sum + ticksOf(pid), 0) >= LONG_TICKS
    if (one.priority === LOW && isLong()) {
      one.priority = LOWEST
      one.isSet = false
    }
    if (!one.isSet) changed.push(one)
  }
  for (const one of changed.sort((a, b) => b.priority - a.priority)) setPriorities(one)
}

function ended(id: number): void {
  giving.delete(id)
  if (giving.size > 0) return
  clearInterval(pollTimer)
  pollTimer = undefined
}

function report(message: Message): void {
  if (process.connected) process.send?.(message, () => {})
}

function reportFailure(id: number, error: unknown): void {
  const { message, code, syscall } = errorOf(error)
  const isCutOff = syscall === 'connect' && code === 'ENOENT'
  report({ id, failed: message, ...(code !== undefined && { code }), isCutOff })
}

/** Programs expect a blocking stream there, so it goes through a pipe. */
function join(stream: Duplex, pipe: Duplex): void {
  pipe.on('error', () => stream.destroy())
  stream.on('error', () => pipe.destroy())
  stream.on('close', () => pipe.destroy())
  stream.pipe(pipe).pipe(stream)
}

async function start({ id, program, args, env, streams: count, givesWay }: Request): Promise<void> {
  let streams: Socket[] = []
  try {
    streams = await Promise.all(Array.from({ length: count }, (_, i) => open(id, i)))
    if (streams.some((stream) => stream.destroyed)) throw cutOff()
    const stdio = streams.map((stream, i) => (i < 3 ? stream : 'pipe'))
    const child = spawn(program, args, { cwd: '/', env, stdio, detached: true })
    child.on('error', (error) => reportFailure(id, error))
    if (child.pid === undefined) {
      for (const stream of streams) stream.destroy()
      return
    }
    if (givesWay) giveWay(id, child.pid)
    child.on('exit', (code, signal) => {
      ended(id)
      report({ id, exit: { code, signal } })
    })
    streams.forEach((stream, i) => {
      const pipe = child.stdio[i]
      if (i < 3) stream.destroy()
      else if (pipe instanceof Duplex) join(stream, pipe)
    })
    report({ id, pid: child.pid })
  } catch (error) {
    for (const stream of streams) stream.destroy()
    reportFailure(id, error)
  }
}

const isRequest = (value: unknown): value is Request =>
  typeof value === 'object' && value !== null && 'program' in value

process.on('message', (message) => {
  if (isRequest(message)) void start(message)
})
