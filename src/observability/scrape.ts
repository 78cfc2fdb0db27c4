/** Answers a scrape: reads the counters of other modules once, then writes all metrics as text. */
import { coalesce } from '../concurrency/coalesce.ts'
import { queueSlots } from '../git/process/run.ts'
import type { Received } from '../http/bodies/request-bodies.ts'
import type { ProcessStatus } from '../processes/process-manager.ts'
import type { Services } from '../services/services.ts'
import { type Metrics, processMetrics } from './metrics.ts'

/** Sources of a scrape besides the services. */
export interface Sources {
  services: Services
  processes: readonly { status(): ProcessStatus; lease(): string | undefined }[]
  isRecovered: () => boolean
  arriving: () => Received
  unreadBytes: () => number
  connections: () => { http: number; grpc: number }
}

export interface Scrape {
  contentType: string
  /** Returns all metrics as text. Concurrent callers share one scrape. */
  text(): Promise<string>
}

/** Timeout of a store, in milliseconds. After it, the store counts as down. */
const TIMEOUT_MS = 2000

export function createScrape(metrics: Metrics, sources: Sources): Scrape {
  const { services, processes } = sources
  const { events, readStore, projector, nodes, gitLimits, pushJournal, checkpoints } = services
  const { gauge, lag, registry } = metrics
  const set = {
    ready: gauge('recovered', '1 when the recovery from a crash is complete'),
    member: gauge(
      'node_member',
      '1 while this node is a member of the cluster; 0 while the other nodes continue without it',
    ),
    unrecorded: gauge('unrecorded_pushes', 'Pushes that git has and the log has not'),
    up: gauge('store_up', '1 when the store answers', ['store']),
    end: gauge('log_position', 'Position of the last event of the log, as far as this node knows'),
    modelEvents: gauge('read_model_lag_events', 'Events that a read model is behind the log', ['model']),
    modelSeconds: gauge('read_model_lag_seconds', 'Seconds that a read model is behind the log', ['model']),
    modelStopped: gauge('read_model_stopped', '1 when a read model has stopped', ['model']),
    processEvents: gauge(
      'process_lag_events',
      'Events that a process is behind the log, on the node that runs it',
      ['process'],
    ),
    processSeconds: gauge('process_lag_seconds', 'Seconds that a process is behind the log', ['process']),
    processStopped: gauge('process_stopped', '1 when a process has stopped', ['process']),
    gitSlots: gauge('git_slots', 'Slots for concurrent git work, by kind', ['kind']),
    gitRunning: gauge('git_running', 'Taken slots for git work, by kind', ['kind']),
    gitWaiting: gauge('git_waiting', 'Git work that waits for a slot, by kind', ['kind']),
    bodies: gauge('bodies_in_flight', 'Request bodies in transfer, by kind: api or git', ['kind']),
    bodyBytes: gauge('body_bytes_in_flight', 'Memory reserved for the bodies of API requests in transfer'),
    unread: gauge('unread_answer_bytes', 'Bytes of answers that clients have not read yet'),
    connections: gauge('connections', 'Open connections by protocol', ['protocol']),
    checkpointAge: checkpoints && gauge('log_checkpoint_age_seconds', 'Age of the last signed checkpoint'),
  }

  function setLags(): void {
    const passed = projector.position()
    const models = projector.status()
    for (const { name: model, position, stopped } of models) {
      const at = stopped === undefined ? Math.max(position, passed) : position
      set.modelEvents.set({ model }, lag.events(at))
      set.modelSeconds.set({ model }, lag.seconds(at))
      set.modelStopped.set({ model }, stopped === undefined ? 0 : 1)
    }
    // No event for read models follows their last one, so a process that has reacted to it is at the end of the log,
    // too.
    const last = models.reduce((most, { position }) => Math.max(most, position), 0)
    for (const one of [set.processEvents, set.processSeconds, set.processStopped]) one.reset()
    for (const { status, lease } of processes) {
      if (lease() === undefined) continue
      const { name: process, position, stopped } = status()
      const at = position >= last ? Math.max(position, passed) : position
      set.processEvents.set({ process }, lag.events(at))
      set.processSeconds.set({ process }, lag.seconds(at))
      set.processStopped.set({ process }, stopped === undefined ? 0 : 1)
    }
  }

  function setGit(): void {
    const { reads, pushes, diffs } = gitLimits
    const kinds = {
      ...queueSlots,
      read: reads.slots,
      push: pushes.slots,
      diff: diffs.slots,
    }
    for (const [kind, { size, counts }] of Object.entries(kinds)) {
      const { running, waiting } = counts()
      set.gitSlots.set({ kind }, size)
      set.gitRunning.set({ kind }, running)
      set.gitWaiting.set({ kind }, waiting)
    }
    const bodies = [reads, pushes].map((kind) => kind.bodies.counts().running)
    set.bodies.set(
      { kind: 'git' },
      bodies.reduce((sum, running) => sum + running, 0),
    )
  }

  async function readCounters(): Promise<void> {
    const [end, answers, checkpoint] = await Promise.all([
      inTime(events.lastPosition()),
      inTime(readStore.ping().then(() => true)),
      checkpoints && inTime(checkpoints.latest()),
    ])
    if (end !== undefined) lag.reaches(end)
    set.up.set({ store: 'log' }, end === undefined ? 0 : 1)
    set.up.set({ store: 'read_models' }, answers ? 1 : 0)
    set.end.set(lag.end())
    if (checkpoint) set.checkpointAge?.set(Math.max(0, (Date.now() - Date.parse(checkpoint.at)) / 1000))
    set.ready.set(sources.isRecovered() ? 1 : 0)
    set.member.set(nodes.isMember() ? 1 : 0)
    set.unrecorded.set(pushJournal.unrecorded().length)
    setLags()
    setGit()
    const { bodies, bytes } = sources.arriving()
    set.bodies.set({ kind: 'api' }, bodies)
    set.bodyBytes.set(bytes)
    set.unread.set(sources.unreadBytes())
    for (const [protocol, count] of Object.entries(sources.connections())) {
      set.connections.set({ protocol }, count)
    }
  }

  const texts = coalesce<string>()
  return {
    contentType: registry.contentType,
    text: () =>
      texts('', async () => {
        await readCounters()
        return `${await registry.metrics()}\n${await processMetrics().metrics()}`
      }),
  }
}

/** Returns a store's result; undefined when it fails or times out. */
async function inTime<T>(answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, TIMEOUT_MS, undefined)
  })
  try {
    return await Promise.race([answer.catch(() => undefined), late])
  } finally {
    clearTimeout(timer)
  }
}
