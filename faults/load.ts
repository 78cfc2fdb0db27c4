/**
 * A steady load. Each client does one thing after the other, as its own random numbers say: so a seed repeats what is
 * done, and the machine decides only how far each client comes. A request without an answer is sent again with the same
 * key until it has one. After each answer the client looks at another node, which must show the change.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { commitOf } from './checks.ts'
import {
  ADMIN,
  type Answer,
  basicOf,
  type Client,
  type Json,
  jsonOf,
  LABEL,
  type Look,
  type Options,
  organizationOf,
} from './client.ts'
import type { Ledger } from './ledger.ts'
import { randomOf } from './random.ts'

/** Clients that write issues, that make pull requests, and that make tokens and repositories. */
const ISSUE_CLIENTS = 2
const PULL_CLIENTS = 2
/** How long a client waits after a request that failed, in milliseconds. */
const PAUSE_MS = 200
/** How long a client sends the same request again, in milliseconds. */
const PATIENCE_MS = 180_000
/**
 * Answers that another try may change: too slow, too many, and in conflict with others. A name whose holder was cut off
 * is in conflict until its time of grace is over.
 */
const TRY_AGAIN = new Set([408, 409, 429])

export interface World {
  client: Client
  ledger: Ledger
  password: string
  seed: number
}

export interface Load {
  /** Works until the signal is aborted. Resolves when all clients have the answer to their last request. */
  work(signal: AbortSignal): Promise<void>
}

/** Makes the clients. They go on where they were, each time they work. */
export function makeLoad(world: World): Load {
  const clients = [
    ...Array.from({ length: ISSUE_CLIENTS }, (_, i) => issueClient(world, i + 1)),
    ...Array.from({ length: PULL_CLIENTS }, (_, i) => pullClient(world, i + 1)),
    refClient(world),
    otherClient(world),
  ]
  return {
    async work(signal) {
      await Promise.all(
        clients.map(async (step) => {
          while (!signal.aborted) await step()
        }),
      )
    },
  }
}

/** The requests of a client, each sent until it has an answer. */
function requests({ client, ledger }: World) {
  async function look(writer: string | undefined, at: Look): Promise<void> {
    ledger.looks += 1
    const problem = await client.problemAt(at, writer)
    if (problem !== undefined) ledger.problems.add(problem)
  }

  /** Sends again and again. `isDone` may accept a refusal of a request that was sent before: it has been done then. */
  async function write(
    method: string,
    path: string,
    options: Options,
    lookAt?: (made: Json) => Look,
    isDone: (answer: Answer) => boolean | Promise<boolean> = () => false,
  ): Promise<Json | undefined> {
    const end = performance.now() + PATIENCE_MS
    let last = ''
    for (let attempt = 1; performance.now() < end; attempt++) {
      const answer = await client.request(method, path, options)
      if (answer !== undefined && (answer.status < 300 || (attempt > 1 && (await isDone(answer))))) {
        const made = jsonOf(answer.status < 300 ? answer.text : '')
        if (answer.isLagging) ledger.lagging += 1
        else if (lookAt !== undefined) await look(answer.node, lookAt(made))
        return made
      }
      ledger.repeated += 1
      const status = answer?.status ?? 0
      last = `${method} ${path} at node ${answer?.node ?? 1}: ${status} ${answer?.text.slice(0, 300)}`
      if (status === 500) ledger.problems.add(last)
      const isRefused = status >= 400 && status < 500 && !TRY_AGAIN.has(status)
      if (isRefused) {
        ledger.problems.add(`refused: ${last}`)
        return undefined
      }
      await delay(PAUSE_MS)
    }
    ledger.problems.add(`no answer in ${PATIENCE_MS / 1000} s: ${last}`)
    return undefined
  }

  async function push(branch: string): Promise<boolean> {
    const end = performance.now() + PATIENCE_MS
    while (performance.now() < end) {
      const { isDone, isWrite, isLagging, node } = await client.push(branch)
      const sha = ledger.pushes.get(branch) ?? ''
      if (isDone && isLagging) ledger.lagging += 1
      else if (isWrite) {
        // When nothing was left to push, the push that was cut off may not be in the log yet: the checks see to it.
        await look(node, { path: `${client.path}/branches/${branch}`, isShown: shows(sha) })
      }
      if (isDone) return true
      ledger.repeated += 1
      await delay(PAUSE_MS)
    }
    ledger.problems.add(`no answer: the push of ${branch} in ${PATIENCE_MS / 1000} s`)
    return false
  }

  return { write, push }
}

const shows =
  (...texts: string[]) =>
  ({ status, text }: Answer) =>
    status === 200 && texts.every((one) => text.includes(one))
const isGone = ({ status }: Answer) => status === 404

/** Opens issues, and gives them labels, comments and files. */
function issueClient(world: World, name: number): () => Promise<void> {
  const { client, ledger, seed } = world
  const { write } = requests(world)
  const random = randomOf(seed + name)
  let n = 0
  return async () => {
    n += 1
    const title = `issue ${name}.${n}`
    const [isLabelled, isCommented, hasFile] = [random.isOneIn(2), random.isOneIn(2), random.isOneIn(2)]
    const body = { title, body: `The body of ${title}` }
    const issue = await write('POST', `${client.path}/issues`, { body, key: title }, ({ number }) => ({
      path: `${client.path}/issues/${number}`,
      isShown: shows(`"${title}"`),
    }))
    if (issue === undefined) return
    const number = Number(issue.number)
    const path = `${client.path}/issues/${number}`
    ledger.issues.set(number, title)
    if (isLabelled) {
      const options = { body: { labels: [LABEL] }, key: `label of ${title}` }
      const done = await write('POST', `${path}/labels`, options, () => ({
        path: `${path}/labels`,
        isShown: shows(`"${LABEL}"`),
      }))
      if (done !== undefined) ledger.labels.add(number)
    }
    if (!isCommented) return
    const text = `comment on ${title}`
    const options = { body: { body: text }, key: text }
    const comment = await write('POST', `${path}/comments`, options, () => ({
      path: `${path}/comments`,
      isShown: shows(`"${text}"`),
    }))
    if (comment === undefined) return
    const id = Number(comment.id)
    ledger.comments.set(id, text)
    if (hasFile) await attach(id, `file-${name}-${n}.txt`)
  }

  async function attach(comment: number, file: string): Promise<void> {
    const content = `${file} `.repeat(random.between(1, 2000))
    const form = new FormData()
    form.set('attachment', new Blob([content], { type: 'text/plain' }), file)
    const path = `${client.path}/issues/comments/${comment}`
    const made = await write('POST', `${path}/assets`, { body: form, key: file }, () => ({
      path,
      isShown: shows(`"${file}"`),
    }))
    if (made === undefined) return
    const { pathname } = new URL(String(made.browser_download_url))
    ledger.files.set(file, { comment, content, path: pathname })
  }
}

/** Pushes branches, opens pull requests, and merges them: now, with their branch, or when their checks succeed. */
function pullClient(world: World, name: number): () => Promise<void> {
  const { client, ledger, seed } = world
  const { write, push } = requests(world)
  const random = randomOf(seed + 100 * name)
  let n = 0
  return async () => {
    n += 1
    const branch = `topic-${name}-${n}`
    const how = random.oneOf('merge', 'merge', 'delete', 'schedule')
    const sha = await client.commit(branch)
    ledger.pushes.set(branch, sha)
    if (!(await push(branch))) return void ledger.pushes.delete(branch)
    const body = { title: branch, head: branch, base: 'main' }
    const pull = await write('POST', `${client.path}/pulls`, { body, key: branch }, ({ number }) => ({
      path: `${client.path}/pulls/${number}`,
      isShown: shows(`"${branch}"`, sha),
    }))
    if (pull === undefined) return
    const number = Number(pull.number)
    ledger.pulls.set(number, branch)
    if (how === 'schedule') return schedule(number, sha)
    const isDeleted = how === 'delete'
    const path = `${client.path}/pulls/${number}`
    const options = { body: { Do: 'merge', delete_branch_after_merge: isDeleted } }
    const look: Look = { path, isShown: shows('"merged":true') }
    const isMerged = async ({ status }: Answer) => {
      const pull = status < 500 ? await client.request('GET', path) : undefined
      return pull !== undefined && look.isShown(pull)
    }
    const done = await write('POST', `${path}/merge`, options, () => look, isMerged)
    if (done === undefined) return
    ledger.merges.add(number)
    if (!isDeleted) return
    ledger.pushes.delete(branch)
    ledger.deletedBranches.add(branch)
  }

  async function schedule(number: number, sha: string): Promise<void> {
    const status = (state: string) =>
      write('POST', `${client.path}/statuses/${sha}`, { body: { state }, key: `${state} ${sha}` }, () => ({
        path: `${client.path}/statuses/${sha}`,
        isShown: shows(`"${state}"`),
      }))
    if ((await status('pending')) === undefined) return
    const body = { Do: 'merge', merge_when_checks_succeed: true }
    const options = { body, key: `schedule ${number}` }
    const scheduled = await write('POST', `${client.path}/pulls/${number}/merge`, options)
    if (scheduled !== undefined && (await status('success')) !== undefined) ledger.schedules.add(number)
  }
}

/** Makes branches, commits of files on them, and tags, over the API: requests that move refs without a push. */
function refClient(world: World): () => Promise<void> {
  const { client, ledger } = world
  const { write } = requests(world)
  let n = 0
  return async () => {
    n += 1
    const name = `made-${n}`
    const branch = { path: `${client.path}/branches/${name}`, isShown: shows(`"${name}"`) }
    const made = { body: { new_branch_name: name }, key: `branch ${name}` }
    if ((await write('POST', `${client.path}/branches`, made, () => branch)) === undefined) return
    const file = { body: { content: 'YQ==', branch: name }, key: `file of ${name}` }
    const committed = await write('POST', `${client.path}/contents/${name}`, file, (answer) => ({
      ...branch,
      isShown: shows(commitOf(answer)),
    }))
    if (committed === undefined) return
    ledger.pushes.set(name, commitOf(committed))
    const tag = { body: { tag_name: name, target: name, message: name }, key: `tag ${name}` }
    const shown = () => ({ path: `${client.path}/tags/${name}`, isShown: shows(commitOf(committed)) })
    if ((await write('POST', `${client.path}/tags`, tag, shown)) !== undefined) {
      ledger.tags.set(name, commitOf(committed))
    }
  }
}

/** Makes tokens, repositories and forks, and deletes repositories and forks. */
function otherClient(world: World): () => Promise<void> {
  const { client, ledger, password, seed } = world
  const { write } = requests(world)
  const random = randomOf(seed + 10_000)
  const run = client.repository.split('/')[1]
  let n = 0

  async function token(): Promise<void> {
    const name = `token ${n} of ${run}`
    const body = { name, scopes: ['read:user'] }
    const options = { body, key: name, authorization: basicOf(password) }
    const made = await write('POST', `/users/${ADMIN}/tokens`, options, ({ sha1 }) => ({
      path: '/user',
      authorization: `token ${sha1}`,
      isShown: shows(`"${ADMIN}"`),
    }))
    if (made !== undefined) ledger.tokens.set(name, String(made.sha1))
  }

  async function repository(fullName: string, path: string, body: object, isKept: boolean): Promise<void> {
    const made = await write('POST', path, { body, key: fullName }, () => ({
      path: `/repos/${fullName}`,
      isShown: shows(`"${fullName}"`),
    }))
    if (made === undefined) return
    if (isKept) return void ledger.repositories.add(fullName)
    const shown = () => ({ path: `/repos/${fullName}`, isShown: isGone })
    // When an earlier attempt has deleted it, there is nothing to delete.
    const deleted = await write('DELETE', `/repos/${fullName}`, {}, shown, isGone)
    if (deleted !== undefined) ledger.deletedRepositories.add(fullName)
  }

  return async () => {
    n += 1
    const isKept = random.isOneIn(2)
    await token()
    const made = `${run}-made-${n}`
    await repository(`${ADMIN}/${made}`, '/user/repos', { name: made, auto_init: true }, isKept)
    const fork = `${run}-fork-${n}`
    const body = { organization: organizationOf(client), name: fork }
    // An owner has one fork of a repository.
    await repository(`${organizationOf(client)}/${fork}`, `${client.path}/forks`, body, false)
  }
}
