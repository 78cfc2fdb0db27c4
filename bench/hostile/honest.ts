/** The honest clients: typical work at a steady pace, with measured latencies. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { api, cloneOf, git, gitUrl, honestName, type Stage } from './stage.ts'

export const KINDS = ['read', 'write', 'git', 'merge'] as const
type Kind = (typeof KINDS)[number]

export interface Sample {
  kind: Kind
  /** Duration of the work, in milliseconds. */
  ms: number
  /** Reason of the failure, if any. */
  failure?: string
}

/** Interval between two requests of one client, in milliseconds. */
const PACE_MS = 100
/** Timeout of a client, in milliseconds. */
const TIMEOUT_MS = 60_000

/** `before` is the client's own work, which is not measured. */
type Step = [kind: Kind, what: () => Promise<unknown>, before?: () => Promise<unknown>]

/** The steps of one client's loop. `round` makes its names unique. */
function stepsOf(stage: Stage, n: number, round: string): Step[] {
  const login = honestName(n)
  const repository = `/repos/${login}/app`
  const dir = cloneOf(stage, n)
  const branch = `branch-${round}`
  const ask = <T>(method: string, path: string, body?: object) => api<T>(stage, login, method, path, body)
  const read = (path: string): Step => ['read', () => ask('GET', `${repository}${path}`)]
  const copy = join(stage.directory, `copy-${n}`)
  let opened = 0
  return [
    read('/issues?state=all'),
    read('/pulls/1'),
    ['write', () => ask('POST', `${repository}/issues`, { title: `Issue ${round}`, body: 'What happens.' })],
    read('/pulls/1/files'),
    read('/issues?q=issue'),
    ['write', () => ask('POST', `${repository}/issues/1/comments`, { body: `Comment ${round}` })],
    [
      'git',
      () => git(dir, 'push', '-q', 'origin', branch),
      async () => {
        await git(dir, 'checkout', '-q', '--orphan', branch, 'main')
        await git(dir, 'reset', '-q', '--soft', 'main')
        await git(dir, 'commit', '-q', '--allow-empty', '-m', `Change ${round}`)
      },
    ],
    read('/pulls?state=all'),
    [
      'write',
      async () => {
        const opening = { head: branch, base: 'main', title: `Change ${round}` }
        opened = (await ask<{ number: number }>('POST', `${repository}/pulls`, opening)).number
      },
    ],
    ['merge', () => ask('POST', `${repository}/pulls/${opened}/merge`, { Do: 'merge' })],
    [
      'git',
      () => git(stage.directory, 'clone', '-q', gitUrl(stage, login, `${login}/app`), copy),
      () => rm(copy, { recursive: true, force: true }),
    ],
  ]
}

/** Runs all honest clients for a time. @param phase makes names unique to this phase */
export async function behaveWell(stage: Stage, phase: string, seconds: number): Promise<Sample[]> {
  const end = performance.now() + seconds * 1000
  const samples: Sample[] = []

  async function client(n: number): Promise<void> {
    let due = performance.now() + (n * PACE_MS) / stage.honest
    for (let round = 0; due < end; round++) {
      for (const [kind, what, before] of stepsOf(stage, n, `${phase}-${round}`)) {
        await before?.()
        await delay(Math.max(0, due - performance.now()))
        const started = performance.now()
        const failure = await Promise.race([
          what().then(
            () => undefined,
            (error: unknown) => `${error}`.split('\n').slice(0, 3).join(' '),
          ),
          delay(TIMEOUT_MS, `no answer for ${TIMEOUT_MS / 1000} s`, { ref: false }),
        ])
        samples.push({ kind, ms: performance.now() - started, ...(failure !== undefined && { failure }) })
        due = Math.max(due + PACE_MS, performance.now())
        if (due >= end) return
      }
    }
  }

  await Promise.all(Array.from({ length: stage.honest }, (_, n) => client(n)))
  return samples
}
