/**
 * gRPC's standard health service. It asks whether the server is ready when it is asked, which the package
 * grpc-health-check (it is told, and keeps every name that was ever watched) does not.
 */
import { type handleUnaryCall, type ServerWritableStream, status } from '@grpc/grpc-js'

type ServingStatus = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN'

interface HealthResponse {
  status: ServingStatus
}

type WatchCall = ServerWritableStream<{ service: string }, HealthResponse>

/** How soon watchers are told of a change, in milliseconds. */
const POLL_MS = 100

export interface Health {
  implementation: {
    check: handleUnaryCall<{ service: string }, HealthResponse>
    list: handleUnaryCall<object, { statuses: Record<string, HealthResponse> }>
    watch: (call: WatchCall) => void
  }
  /** Tells watchers that the server stops, and ends their calls. */
  close(): void
}

/** `names`: services that share the status of the server; the server itself is the empty name. */
export function createHealth(names: readonly string[], ready: () => boolean): Health {
  const known = new Set(['', ...names])
  /** The status that each was told last. */
  const watchers = new Map<WatchCall, ServingStatus>()
  let timer: NodeJS.Timeout | undefined
  let closing = false

  const current = (): ServingStatus => (!closing && ready() ? 'SERVING' : 'NOT_SERVING')

  function tell(call: WatchCall): void {
    const now = known.has(call.request.service) ? current() : 'SERVICE_UNKNOWN'
    // One who does not read is told later, what is true then.
    if (watchers.get(call) === now || call.writableNeedDrain) return
    watchers.set(call, now)
    call.write({ status: now })
  }

  function forget(call: WatchCall): void {
    watchers.delete(call)
    if (watchers.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    implementation: {
      check({ request: { service } }, callback) {
        if (known.has(service)) callback(null, { status: current() })
        else callback({ code: status.NOT_FOUND, details: 'unknown service' })
      },
      list(_call, callback) {
        const health = { status: current() }
        callback(null, { statuses: Object.fromEntries([...known].map((name) => [name, health])) })
      },
      watch(call) {
        if (closing) {
          call.end({ status: 'NOT_SERVING' })
          return
        }
        call.on('cancelled', () => forget(call))
        tell(call)
        timer ??= setInterval(() => {
          for (const watcher of watchers.keys()) tell(watcher)
        }, POLL_MS).unref()
      },
    },
    close() {
      closing = true
      for (const call of [...watchers.keys()]) {
        tell(call)
        forget(call)
        call.end()
      }
    },
  }
}
