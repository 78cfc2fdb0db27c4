/** Records the answers of `GET` for an issue or pull request, step by step, to compare replays with them. */
import { headBranches } from '../../../../src/processes/pull-requests/head-branches.ts'
import { pullHeads } from '../../../../src/processes/pull-requests/pull-heads.ts'
import { createScheduledMerges } from '../../../../src/processes/pull-requests/scheduled-merges.ts'
import type { TestServer } from '../../../start-server.ts'
import { until } from '../../../until.ts'

/** The answer after one step. */
interface Moment {
  step: string
  revision: number
  /** The time of the answer. Nothing happened later in that millisecond. */
  at: string
  /** Whether the step changed the issue or pull request itself, not only a related document. */
  changed: boolean
  answers: { kind: 'pulls' | 'issues'; body: unknown }[]
}

/** Resolves when all processes are idle and queries see all their events. */
export async function quiet({ services }: Pick<TestServer, 'services'>): Promise<void> {
  const { events, readStore, projector } = services
  const managers = [
    pullHeads(services, async () => {}),
    headBranches(services),
    createScheduledMerges(services, new AbortController().signal).manager,
  ]
  await until('all processes are idle', async () => {
    const last = await events.lastPosition()
    const awaited = new Map<string, number>()
    for await (const event of events.readAll()) {
      for (const { name, handles } of managers) {
        if (handles(event)) awaited.set(name, event.position)
      }
    }
    for (const [name, position] of awaited) {
      const checkpoint = await readStore.checkpoint(`process_${name}`)
      if ((checkpoint?.position ?? 0) < position) return false
    }
    return (await projector.waitFor(last, 5000)) && (await events.lastPosition()) === last
  })
}

/**
 * Removes the values that a replay shows in their current state: counters and update times of repositories and
 * milestones, and the disk usage of repositories.
 */
export function withoutCounters(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutCounters)
  if (typeof value !== 'object' || value === null) return value
  const ofNow =
    'clone_url' in value
      ? ['forks_count', 'open_issues_count', 'open_pr_counter', 'updated_at', 'size', 'language']
      : 'due_on' in value
        ? ['open_issues', 'closed_issues', 'updated_at']
        : []
  const fields = Object.entries(value).filter(([field]) => !ofNow.includes(field))
  return Object.fromEntries(fields.map(([field, inner]) => [field, withoutCounters(inner)]))
}

/** The answers for one issue or pull request. `path`: its current repository, which may be renamed: `alice/app`. */
export function recordAnswersOf(
  server: TestServer,
  thing: { stream: string; index: number; kinds: ('pulls' | 'issues')[]; path: () => string },
) {
  const { stream, index, kinds, path } = thing
  const moments: Moment[] = []

  async function revision(): Promise<number> {
    const last = server.services.events.readStream(stream, { direction: 'backwards', maxCount: 1 })
    for await (const event of last) return event.revision
    throw new Error(`${stream} has no events`)
  }

  async function ask(kind: string, query = '', login: string | null = 'alice') {
    const answer = await server.fetch(login, `/api/v1/repos/${path()}/${kind}/${index}${query}`)
    const body: unknown = await answer.json()
    return { status: answer.status, headers: answer.headers, body }
  }

  return {
    moments,
    ask,
    revision,
    /** Acts, and records the answers after it. */
    async step(step: string, act: () => Promise<unknown> = async () => {}): Promise<void> {
      await act()
      await quiet(server)
      const now = await revision()
      const answers: Moment['answers'] = []
      for (const kind of kinds) {
        const { status, body } = await ask(kind)
        if (status !== 200) throw new Error(`${step}: ${kind} ${status}`)
        answers.push({ kind, body })
      }
      const moment = Date.now()
      await until('the next millisecond', async () => Date.now() > moment)
      const changed = moments.at(-1)?.revision !== now
      moments.push({ step, revision: now, at: new Date(moment).toISOString(), changed, answers })
    },
  }
}
