/**
 * Refuses debuggers of the server's process: any program of the machine could attach, with all permissions of the
 * server.
 */
import inspector from 'node:inspector'

/**
 * Without a handler, SIGUSR1 makes Node listen for a debugger. Operators send it to programs that shall open their logs
 * again. Node has its own handler from its first moment, so one that it has opened before is closed.
 */
export function refuseDebuggers(): void {
  process.on('SIGUSR1', () => {})
  closeDebugger()
  // A signal that Node has taken already may open it a moment later.
  setImmediate(closeDebugger)
}

function closeDebugger(): void {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  const isWanted = options.some((option) => /--inspect(?!-port|-publish)/.test(option))
  if (!isWanted && inspector.url() !== undefined) inspector.close()
}
