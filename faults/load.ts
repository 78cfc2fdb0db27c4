/**
 * A steady load. Each client takes one step at a time, chosen by its own random numbers. So a seed repeats the actions,
 * and only the progress of each client depends on the machine.
 */
import { commitOf } from './checks.ts'
import { ADMIN, type Answer, basicOf, LABEL, type Look, organizationOf } from './client.ts'
import { randomOf } from './random.ts'
import { isGone, requests, type Sender, shows } from './requests.ts'

/** Number of clients that write issues, and of those that open pull requests. */
const ISSUE_CLIENTS = 2
const PULL_CLIENTS = 2

export interface World extends Sender {
  password: string
  seed: number
}

export interface Load {
  /** Works until the signal is aborted. Resolves when all clients have the answer to their last request. */
  work(signal: AbortSignal): Promise<void>
}

/** Creates the clients. Each run continues where the last one ended. */
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
    const created = await write('POST', `${path}/assets`, { body: form, key: file }, () => ({
      path,
      isShown: shows(`"${file}"`),
    }))
    if (created === undefined) return
    const { pathname } = new URL(String(created.browser_download_url))
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

/** Creates branches, commits of files on them, and tags, over the API: requests that move refs without a push. */
function refClient(world: World): () => Promise<void> {
  const { client, ledger } = world
  const { write } = requests(world)
  let n = 0
  return async () => {
    n += 1
    const name = `made-${n}`
    const branch = { path: `${client.path}/branches/${name}`, isShown: shows(`"${name}"`) }
    const created = { body: { new_branch_name: name }, key: `branch ${name}` }
    if ((await write('POST', `${client.path}/branches`, created, () => branch)) === undefined) return
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

/** Creates tokens, repositories and forks, and deletes repositories and forks. */
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
    const created = await write('POST', `/users/${ADMIN}/tokens`, options, ({ sha1 }) => ({
      path: '/user',
      authorization: `token ${sha1}`,
      isShown: shows(`"${ADMIN}"`),
    }))
    if (created !== undefined) ledger.tokens.set(name, String(created.sha1))
  }

  async function repository(fullName: string, path: string, body: object, isKept: boolean): Promise<void> {
    const created = await write('POST', path, { body, key: fullName }, () => ({
      path: `/repos/${fullName}`,
      isShown: shows(`"${fullName}"`),
    }))
    if (created === undefined) return
    if (isKept) return void ledger.repositories.add(fullName)
    const shown = () => ({ path: `/repos/${fullName}`, isShown: isGone })
    // An earlier attempt may have deleted it already.
    const deleted = await write('DELETE', `/repos/${fullName}`, {}, shown, isGone)
    if (deleted !== undefined) ledger.deletedRepositories.add(fullName)
  }

  return async () => {
    n += 1
    const isKept = random.isOneIn(2)
    await token()
    const created = `${run}-made-${n}`
    await repository(`${ADMIN}/${created}`, '/user/repos', { name: created, auto_init: true }, isKept)
    const fork = `${run}-fork-${n}`
    const body = { organization: organizationOf(client), name: fork }
    // An owner has one fork of a repository.
    await repository(`${organizationOf(client)}/${fork}`, `${client.path}/forks`, body, false)
  }
}
