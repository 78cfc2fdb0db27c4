/**
 * gRPC's standard health service. Each check reads whether the server is ready. The package grpc-health-check expects
 * the server to push each status, and keeps every name that a client ever watched.
 */
import { type handleUnaryCall, type ServerWritableStream, status } from '@grpc/grpc-js'

type ServingStatus = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN'

interface HealthResponse {
  status: ServingStatus
}

type WatchCall = ServerWritableStream<{ service: string }, HealthResponse>

/** Interval of the status checks for watchers, in milliseconds. */
const POLL_MS = 100

export interface Health {
  implementation: {
    check: handleUnaryCall<{ service: string }, HealthResponse>
    list: handleUnaryCall<object, { statuses: Record<string, HealthResponse> }>
    watch: (call: WatchCall) => void
  }
  /** Sends NOT_SERVING to the watchers and ends their calls. */
  close(): void
}

/** `names`: the services that share the server's status. The empty name is the server itself. */
export function createHealth(names: readonly string[], ready: () => boolean): Health {
  const known = new Set(['', ...names])
  /** The last status sent to each watcher. */
  const watchers = new Map<WatchCall, ServingStatus>()
  let timer: NodeJS.Timeout | undefined
  let closing = false

  const current = (): ServingStatus => (!closing && ready() ? 'SERVING' : 'NOT_SERVING')

  function sendChange(call: WatchCall): void {
    const now = known.has(call.request.service) ? current() : 'SERVICE_UNKNOWN'
    // A client that doesn't read now gets the status later.
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
        sendChange(call)
        timer ??= setInterval(() => {
          for (const watcher of watchers.keys()) sendChange(watcher)
        }, POLL_MS).unref()
      },
    },
    close() {
      closing = true
      for (const call of [...watchers.keys()]) {
        sendChange(call)
        forget(call)
        call.end()
      }
    },
  }
}
