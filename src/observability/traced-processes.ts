/** Processes with spans in the trace of the request that caused their events. */
import type { ProcessManager } from '../processes/process-manager.ts'
import type { Tracing } from './tracing.ts'

export const tracedProcess = (manager: ProcessManager, tracing: Tracing): ProcessManager => ({
  ...manager,
  react: (event, context) =>
    tracing.following(`process ${manager.name}`, [context.correlationId], () =>
      manager.react(event, context),
    ),
})
