/**
 * The program of the launcher: it starts processes, joins their streams to sockets, tells how they end, and lowers the
 * priority of those that give way. It is a string because Node needs JavaScript, and our files may run as TypeScript.
 */
export const LAUNCHER = `
  const { spawn } = require('node:child_process')
  const inspector = require('node:inspector')
  const { readFileSync, rmSync, writeFileSync } = require('node:fs')
  const { connect } = require('node:net')
  const { setPriority } = require('node:os')
  const { dirname } = require('node:path')
  const [path] = process.argv.slice(1)
  /** The priority of what gives way, and of what has worked for long; see the decision about the launcher. */
  const LOW = 5
  const LOWEST = 15
  const LONG_TICKS = 30
  const LOOK_MS = 250
  process.umask(0o077)
  // The parent may get these together with all of its processes.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1']) process.on(signal, () => {})
  // Node may have opened it before this line.
  const closeDebugger = () => { if (inspector.url() !== undefined) inspector.close() }
  closeDebugger()
  setImmediate(closeDebugger)
  // It ends with its parent.
  process.on('disconnect', () => {
    rmSync(dirname(path), { recursive: true, force: true })
    process.exit()
  })

  /** The server takes no streams: it may open no further file. */
  const cutOff = () => Object.assign(new Error('its streams were cut off'), { code: 'EMFILE' })

  function open(id, number) {
    return new Promise((resolve, reject) => {
      const stream = connect(path)
      stream.on('error', reject)
      const head = String(id).padStart(12, '0') + number
      stream.write(head, (error) => { if (error) reject(cutOff()); else resolve(stream) })
    })
  }

  /** Those that give way, by id: their priority, and whether the session of each has it. */
  const giving = new Map()
  let looking

  /** Both are needed: the second one only counts where each session has its share of the processors. */
  function setPriorities(one) {
    for (const pid of withChildren(one.pid)) try { setPriority(pid, one.priority) } catch {}
    one.isSet = true
    // The system takes few of these at a time. What it did not take is tried again.
    try { writeFileSync('/proc/' + one.pid + '/autogroup', String(one.priority)) } catch (error) {
      one.isSet = error.code !== 'EAGAIN'
    }
  }

  function withChildren(pid) {
    try {
      const children = readFileSync('/proc/' + pid + '/task/' + pid + '/children', 'latin1')
      return [pid, ...children.split(' ').filter(Boolean).map(Number).flatMap(withChildren)]
    } catch { return [pid] }
  }

  /** What a process and those that it has waited for have worked, in ticks of 10 ms. */
  function ticksOf(pid) {
    try {
      const stat = readFileSync('/proc/' + pid + '/stat', 'latin1')
      const [user, system, ofUsers, ofSystems] = stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(11, 15)
      return Number(user) + Number(system) + Number(ofUsers) + Number(ofSystems)
    } catch { return 0 }
  }

  function giveWay(id, pid) {
    const one = { pid, priority: LOW, isSet: false }
    giving.set(id, one)
    setPriorities(one)
    looking ??= setInterval(look, LOOK_MS)
  }

  function look() {
    const changed = []
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

  function ended(id) {
    giving.delete(id)
    if (giving.size > 0) return
    clearInterval(looking)
    looking = undefined
  }

  function tell(message) {
    if (process.connected) process.send(message, () => {})
  }

  /** A stream that is not a standard one must block, so it goes through a pipe. */
  function join(stream, pipe) {
    pipe.on('error', () => stream.destroy())
    stream.on('error', () => pipe.destroy())
    stream.on('close', () => pipe.destroy())
    stream.pipe(pipe).pipe(stream)
  }

  process.on('message', async ({ id, program, args, env, streams: count, givesWay }) => {
    let streams = []
    try {
      streams = await Promise.all(Array.from({ length: count }, (_, i) => open(id, i)))
      if (streams.some((stream) => stream.destroyed)) throw cutOff()
      const stdio = streams.map((stream, i) => (i < 3 ? stream : 'pipe'))
      const child = spawn(program, args, { cwd: '/', env, stdio, detached: true })
      child.on('error', (error) => tell({ id, failed: error.message, code: error.code }))
      if (child.pid === undefined) {
        for (const stream of streams) stream.destroy()
        return
      }
      if (givesWay) giveWay(id, child.pid)
      child.on('exit', (code, signal) => {
        ended(id)
        tell({ id, exit: { code, signal } })
      })
      streams.forEach((stream, i) => (i < 3 ? stream.destroy() : join(stream, child.stdio[i])))
      tell({ id, pid: child.pid })
    } catch (error) {
      for (const stream of streams) stream.destroy()
      tell({ id, failed: error.message, code: error.code, isCutOff: error.syscall === 'connect' && error.code === 'ENOENT' })
    }
  })
`
