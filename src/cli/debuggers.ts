/** Refuses debuggers: any program of the machine could attach, and act with all permissions of the server. */
import inspector from 'node:inspector'

/**
 * Without a handler, SIGUSR1 makes Node listen for a debugger. Operators send it to make programs reopen their logs. A
 * debugger port that Node opened before this call is closed.
 */
export function refuseDebuggers(): void {
  process.on('SIGUSR1', () => {})
  closeDebugger()
  // A signal that Node has received already may open the port a moment later.
  setImmediate(closeDebugger)
}

function closeDebugger(): void {
  const options = [...process.execArgv, process.env.NODE_OPTIONS ?? '']
  const isWanted = options.some((option) => /--inspect(?!-port|-publish)/.test(option))
  if (!isWanted && inspector.url() !== undefined) inspector.close()
}
