/** A repository on a server and a clone of it: what tests of merging do with it, as its owner and as others. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { CreatePullRequestOption, PullRequest } from 'gitea-js'
import { decode } from '../../../src/events/codec.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { type WorkTree, workTree } from '../../git-client.ts'
import type { TestServer } from '../../start-server.ts'

const run = promisify(execFile)

export interface Answer {
  status: number
  message: string
  errors: string[]
}

export type Hosted = Awaited<ReturnType<typeof hostedRepository>>

/** A repository of alice's with a first commit. `settings`: as in `PATCH /repos/{owner}/{repo}`. */
export async function hostedRepository(
  t: Parameters<typeof workTree>[0],
  server: TestServer,
  name: string,
  settings?: object,
) {
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name, auto_init: true })
  if (settings !== undefined) await alice.repos.repoEdit('alice', name, settings)
  const { id = 0 } = (await alice.repos.repoGet('alice', name)).data
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  await work.git('config', 'gc.auto', '0')

  /** A request below the repository's path; resolves to what an error's body says, too. */
  async function call(login: string, method: string, path: string, body?: object, headers = {}) {
    const answer = await server.fetch(login, `/api/v1/repos/alice/${name}${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    const { message = '', errors = [] } = text === '' ? {} : JSON.parse(text)
    return { status: answer.status, message, errors } satisfies Answer
  }

  return {
    alice,
    id,
    name,
    work,
    call,
    gitDir: `${server.dataDir}/git/${id}.git`,
    /** Pushes a branch from another with a commit of these files on it; resolves to its tip. */
    async branch(branch: string, files: Record<string, string>, from = 'main'): Promise<string> {
      await work.git('checkout', '-q', '-B', branch, from)
      const tip = await work.commit(`Commit on ${branch}`, files)
      await work.git('push', '-q', '-f', 'origin', branch)
      return tip
    },
    /** Opens a pull request from the branch; resolves to its number. */
    async open(head: string, options: Partial<CreatePullRequestOption> = {}): Promise<number> {
      const request = { head, base: 'main', title: `From ${head}`, ...options }
      return (await alice.repos.repoCreatePullRequest('alice', name, request)).data.number ?? 0
    },
    async get(index: number): Promise<PullRequest> {
      return (await alice.repos.repoGetPullRequest('alice', name, index)).data
    },
    merge: (index: number, options: object = {}, login = 'alice', headers: Record<string, string> = {}) =>
      call(login, 'POST', `/pulls/${index}/merge`, { Do: 'merge', ...options }, headers),
    /** Adds a user as a writer. */
    async writer(login: string): Promise<void> {
      await server.as(login)
      await alice.repos.repoAddCollaborator('alice', name, login, { permission: 'write' })
    },
    async protect(rules: object): Promise<void> {
      await alice.repos.repoCreateBranchProtection('alice', name, { rule_name: 'main', ...rules })
    },
    /** Where a branch stands on the server. */
    async tip(branch: string): Promise<string | undefined> {
      return (await work.git('ls-remote', 'origin', `refs/heads/${branch}`)).split('\t')[0] || undefined
    },
    async events(index: number): Promise<DomainEvent[]> {
      const events: DomainEvent[] = []
      for await (const recorded of server.services.events.readStream(`pull-${id}.${index}`)) {
        events.push(decode(recorded))
      }
      return events
    },
  }
}

/** A fork of the repository, and a clone of that with the remote `upstream`. */
export async function forkOf(
  t: Parameters<typeof workTree>[0],
  server: TestServer,
  hosted: Hosted,
  login: string,
) {
  const api = await server.as(login)
  await api.repos.createFork('alice', hosted.name, {})
  const work = await workTree(t, server.gitUrl(login, `${login}/${hosted.name}`))
  return {
    api,
    work,
    async branch(branch: string, files: Record<string, string>, from = 'main'): Promise<string> {
      await work.git('checkout', '-q', '-B', branch, from)
      const tip = await work.commit(`Commit on ${branch}`, files)
      await work.git('push', '-q', '-f', 'origin', branch)
      return tip
    },
  }
}

export interface Person {
  name: string
  email: string
}

export const ALICE: Person = { name: 'alice', email: 'alice@example.org' }

/** Runs git in the work tree as these people, at one time: what it makes then has the same id every time. */
export async function gitAs(
  work: WorkTree,
  people: { author?: Person; committer: Person; at: string },
  ...args: string[]
): Promise<string> {
  const { author, committer, at } = people
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: '/nonexistent',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_EDITOR: 'true',
    GIT_COMMITTER_NAME: committer.name,
    GIT_COMMITTER_EMAIL: committer.email,
    GIT_COMMITTER_DATE: at,
    ...(author && { GIT_AUTHOR_NAME: author.name, GIT_AUTHOR_EMAIL: author.email, GIT_AUTHOR_DATE: at }),
  }
  return (await run('git', args, { cwd: work.dir, env })).stdout.trim()
}
