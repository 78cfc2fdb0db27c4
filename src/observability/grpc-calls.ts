/** Counts, traces and logs each gRPC call. */
import { status } from '@grpc/grpc-js'
import type { FastifyBaseLogger } from 'fastify'
import type { ObserveCall } from '../upgrade/grpc-queries.ts'
import type { Metrics } from './metrics.ts'
import { hasInfo, rounded } from './request-log.ts'
import type { Tracing } from './tracing.ts'

export function observeCalls(
  log: FastifyBaseLogger,
  metrics: Metrics,
  tracing: Tracing | undefined,
): ObserveCall {
  return (method, call) => {
    const begun = performance.now()
    // Read at the start: the connection may end before the call.
    const peer = hasInfo(log) ? call.getPeer() : ''
    const endSpan = tracing?.call(method, call.metadata.get('traceparent')[0]?.toString())
    return (code) => {
      const ms = performance.now() - begun
      metrics.call(method, status[code], ms)
      endSpan?.(status[code])
      if (hasInfo(log)) log.info({ method, code: status[code], ms: rounded(ms), peer }, 'gRPC call')
    }
  }
}
