/** A steady load, and what the server has acknowledged of it. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from './client.ts'

/** Clients that open issues, and clients that push, open a pull request and merge it. */
const ISSUE_CLIENTS = 3
const STORY_CLIENTS = 2
/** How long a client waits after a request that failed, in milliseconds. */
const PAUSE_MS = 50

/** A request without an answer. It is sent again with the same key when the server is back. */
interface Unanswered {
  title: string
  key: string
}

export interface Ledger {
  /** Titles by number. */
  issues: Map<number, string>
  /** Commits by branch. */
  pushes: Map<string, string>
  /** Head branches by number. */
  pulls: Map<number, string>
  /** Numbers of merged pull requests. */
  merges: Set<number>
  unanswered: {
    issues: Unanswered[]
    pushes: Map<string, string>
    pulls: Unanswered[]
    merges: Set<number>
  }
}

export const newLedger = (): Ledger => ({
  issues: new Map(),
  pushes: new Map(),
  pulls: new Map(),
  merges: new Set(),
  unanswered: { issues: [], pushes: new Map(), pulls: [], merges: new Set() },
})

/** What a server acknowledges. */
export type Kind = 'issues' | 'pushes' | 'pulls' | 'merges'

export const unanswered = ({ unanswered: { issues, pushes, pulls, merges } }: Ledger) =>
  issues.length + pushes.size + pulls.length + merges.size

/** Opens an issue. False when the answer is missing. */
async function openIssue(client: Client, ledger: Ledger, { title, key }: Unanswered): Promise<boolean> {
  const path = `/repos/${client.repository}/issues`
  const made = await client.send('POST', path, { title, body: `The body of ${title}` }, key)
  if (made === undefined) return false
  ledger.issues.set(Number(made.number), title)
  return true
}

async function push(client: Client, ledger: Ledger, branch: string, sha: string): Promise<boolean> {
  if (!(await client.push(branch))) return false
  ledger.pushes.set(branch, sha)
  return true
}

/** The title of a pull request is the name of its head branch. Resolves to its number. */
async function openPull(
  client: Client,
  ledger: Ledger,
  { title, key }: Unanswered,
): Promise<number | undefined> {
  const body = { title, head: title, base: 'main' }
  const made = await client.send('POST', `/repos/${client.repository}/pulls`, body, key)
  if (made === undefined) return undefined
  ledger.pulls.set(Number(made.number), title)
  return Number(made.number)
}

async function merge(client: Client, ledger: Ledger, number: number): Promise<boolean> {
  const body = { Do: 'merge' }
  const done = await client.send('POST', `/repos/${client.repository}/pulls/${number}/merge`, body)
  if (done === undefined) return false
  ledger.merges.add(number)
  return true
}

/** Works until the signal is aborted. Resolves when all clients have their last answer. */
export async function work(client: Client, ledger: Ledger, signal: AbortSignal): Promise<void> {
  const issues = async () => {
    while (!signal.aborted) {
      const one = { title: `Issue ${randomUUID()}`, key: randomUUID() }
      if (await openIssue(client, ledger, one)) continue
      ledger.unanswered.issues.push(one)
      await delay(PAUSE_MS)
    }
  }

  /** One pull request, as far as the server answers. */
  async function story(): Promise<boolean> {
    const branch = `topic-${randomUUID()}`
    const sha = await client.commit(branch)
    if (!(await push(client, ledger, branch, sha))) {
      ledger.unanswered.pushes.set(branch, sha)
      return false
    }
    if (signal.aborted) return true
    const opening = { title: branch, key: randomUUID() }
    const number = await openPull(client, ledger, opening)
    if (number === undefined) {
      ledger.unanswered.pulls.push(opening)
      return false
    }
    if (signal.aborted || (await merge(client, ledger, number))) return true
    ledger.unanswered.merges.add(number)
    return false
  }
  const stories = async () => {
    while (!signal.aborted) {
      if (!(await story())) await delay(PAUSE_MS)
    }
  }

  await Promise.all([
    ...Array.from({ length: ISSUE_CLIENTS }, issues),
    ...Array.from({ length: STORY_CLIENTS }, stories),
  ])
}

/**
 * Sends again what got no answer: done before or not, it must be done once now.
 * @throws Error when the server refuses one of them
 */
export async function repeatUnanswered(client: Client, ledger: Ledger): Promise<void> {
  const { issues, pushes, pulls, merges } = ledger.unanswered
  const required = async (what: string, done: Promise<boolean>) => {
    if (!(await done)) throw new Error(`half done: ${what} got no answer, and is refused when it is repeated`)
  }
  for (const one of issues) await required(one.title, openIssue(client, ledger, one))
  for (const [branch, sha] of pushes)
    await required(`the push of ${branch}`, push(client, ledger, branch, sha))
  for (const one of pulls) {
    const number = await openPull(client, ledger, one)
    await required(`the pull request of ${one.title}`, Promise.resolve(number !== undefined))
  }
  for (const number of merges) {
    const pull = await client.ask('GET', `/repos/${client.repository}/pulls/${number}`)
    if (pull.merged === true) ledger.merges.add(number)
    else await required(`the merge of #${number}`, merge(client, ledger, number))
  }
  ledger.unanswered = newLedger().unanswered
}
