/** The server's metrics for Prometheus. `deploy/` and operators rely on their names. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { LIMITS, onLimitReached } from '../errors/limits.ts'
import type { RefusalKind } from '../errors/refusal.ts'
import type { Appended } from '../events/store/event-store.ts'
import { watchProcesses } from '../git/process/process-watch.ts'
import { createLag } from './lag.ts'

/** Buckets in seconds. Few, because each adds a line per route and status. */
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60]
const WORK_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10]

export type AppendOutcome = 'ok' | 'conflict' | 'refused' | 'failed'

export type Metrics = ReturnType<typeof createMetrics>

/** Metrics of the whole process: memory, processor time, file descriptors, event loop, garbage collections. */
let processRegistry: Registry | undefined

/** Creates them at the first scrape: collecting has a cost. */
export function processMetrics(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry()
    collectDefaultMetrics({ register: processRegistry, eventLoopMonitoringPrecision: 10 })
  }
  return processRegistry
}

/** Creates the metrics of one server. `node`: its name. `isDense`: whether each position of the log is an event. */
export function createMetrics({ node, isDense }: { node: string; isDense: boolean }) {
  const registry = new Registry()
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: `mergelog_${name}`, help, labelNames: [...labelNames], registers })
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge<L>({ name: `mergelog_${name}`, help, labelNames: [...labelNames], registers })
  const histogram = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: number[],
  ) => new Histogram<L>({ name: `mergelog_${name}`, help, labelNames: [...labelNames], buckets, registers })

  gauge('node_info', 'Always 1; names the node', ['node']).set({ node }, 1)

  const requests = histogram(
    'http_request_duration_seconds',
    'Requests by method, pattern of the route and status; the status is "aborted" when the client disconnected before the end of the answer',
    ['method', 'route', 'status'],
    REQUEST_BUCKETS,
  )
  const unreadable = counter(
    'http_unreadable_requests_total',
    'Requests that are not HTTP, too slow or too large',
    ['status'],
  )
  const calls = histogram(
    'grpc_call_duration_seconds',
    'Calls of the Query service by method and status',
    ['method', 'code'],
    REQUEST_BUCKETS,
  )
  const appends = histogram(
    'append_duration_seconds',
    'Appends to the log by outcome: ok, conflict (of concurrent appends), refused or failed',
    ['outcome'],
    WORK_BUCKETS,
  )
  const appendedEvents = counter('appended_events_total', 'Events that this node has appended')
  const batches = histogram(
    'projector_batch_duration_seconds',
    'Time in which the projector applies a batch of events to the read models',
    [],
    WORK_BUCKETS,
  )
  const projectedEvents = counter(
    'projected_events_total',
    'Events that the projector of this node has applied',
  )
  const signIns = counter(
    'sign_in_failures_total',
    'Requests whose credentials were refused, by the reason',
    ['reason'],
  )
  const gitProcesses = histogram(
    'git_process_duration_seconds',
    'Ended processes of git and ssh-keygen by command and outcome: ok, failed or killed',
    ['command', 'end'],
    REQUEST_BUCKETS,
  )
  const gitRunning = gauge('git_processes', 'Running processes of git and ssh-keygen')
  const limits = counter('limit_reached_total', 'Refusals and aborts by a limit, by limit', ['limit'])
  for (const limit of Object.keys(LIMITS)) limits.inc({ limit }, 0)

  const endWatches = [
    onLimitReached((limit) => limits.inc({ limit })),
    watchProcesses((command) => {
      const begun = performance.now()
      gitRunning.inc()
      return ({ code }) => {
        gitRunning.dec()
        const end = code === null ? 'killed' : code === 0 ? 'ok' : 'failed'
        gitProcesses.observe({ command, end }, (performance.now() - begun) / 1000)
      }
    }),
  ]
  const lag = createLag({ isDense })

  return {
    registry,
    gauge,
    lag,
    request: (method: string, route: string, status: string, ms: number) =>
      requests.observe({ method, route, status }, ms / 1000),
    unreadable: (status: number) => unreadable.inc({ status }),
    call: (method: string, code: string, ms: number) => calls.observe({ method, code }, ms / 1000),
    appended(outcome: AppendOutcome, ms: number, events = 0, last?: Appended) {
      appends.observe({ outcome }, ms / 1000)
      if (last === undefined) return
      appendedEvents.inc(events)
      lag.reaches(last.position)
    },
    projected(batch: readonly { position: number }[], ms: number) {
      batches.observe(ms / 1000)
      projectedEvents.inc(batch.length)
      lag.delivered(batch)
      lag.reaches(batch.at(-1)?.position ?? 0)
    },
    signInRefused: (reason: RefusalKind) => signIns.inc({ reason }),
    /** Stops watching the process. */
    close() {
      for (const end of endWatches) end()
    },
  }
}
