/** A server with people and repositories of alice's, for tests of what can be done with pull requests. */
import type { CreatePullRequestOption, PullRequest } from 'gitea-js'
import type t from 'tap'
import { workTree } from '../../git-client.ts'
import { startTestServer } from '../../start-server.ts'

type Test = Pick<typeof t, 'teardown'>

export async function startPullRequests(test: Test) {
  const server = await startTestServer(test)
  const [alice, bob, carol, dave] = await Promise.all([
    server.as('alice'),
    server.as('bob'),
    server.as('carol'),
    server.as('dave'),
  ])

  /** Status and body of a request as that user: for what Gitea's client hides of errors. */
  async function call(login: string | null, method: string, path: string, body?: object) {
    const answer = await server.fetch(login, `/api/v1/${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return {
      status: answer.status,
      headers: answer.headers,
      body: text === '' ? undefined : JSON.parse(text),
    }
  }

  /** A repository of alice's, in which bob may read (if it is public) and carol may write. */
  async function repository(test: Test, name: string, options: object = {}) {
    const made = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
    await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'write' })
    const work = await workTree(test, server.gitUrl('alice', `alice/${name}`))
    const pulls = `repos/alice/${name}/pulls`
    const repoId = made.data.id ?? 0
    return {
      repoId,
      work,
      /** Pushes branches from main with one commit each, on a file of the branch's name; resolves to the last tip. */
      async branches(...branches: string[]) {
        let tip = ''
        for (const branch of branches) {
          await work.git('checkout', '-q', '-B', branch, 'main')
          tip = await work.commit(`Commit on ${branch}`, { [branch.replaceAll('/', '-')]: `${branch}\n` })
        }
        await work.git('push', '-q', '-f', 'origin', ...branches)
        return tip
      },
      /** Opens a pull request as alice, which must succeed. */
      async open(
        head: string,
        option: Partial<CreatePullRequestOption> = {},
        login = 'alice',
      ): Promise<PullRequest> {
        const body = { head, base: 'main', title: `From ${head}`, ...option }
        const { status, body: pull } = await call(login, 'POST', pulls, body)
        if (status !== 201) throw new Error(`opening ${head}: ${status} ${JSON.stringify(pull)}`)
        return pull
      },
      /** The same for one that may be refused. */
      tryOpen: (head: string, option: object = {}, login: string | null = 'alice') =>
        call(login, 'POST', pulls, { head, base: 'main', title: `From ${head}`, ...option }),
      edit: (index: number, option: object, login: string | null = 'alice') =>
        call(login, 'PATCH', `${pulls}/${index}`, option),
      get: async (index: number) => (await alice.repos.repoGetPullRequest('alice', name, index)).data,
      merge: (index: number) =>
        call('alice', 'POST', `${pulls}/${index}/merge`, { Do: 'merge' }).then(({ status }) => status),
      label: async (label: string) =>
        (await alice.repos.issueCreateLabel('alice', name, { name: label, color: '#aabbcc' })).data.id ?? 0,
      milestone: async (title: string) =>
        (await alice.repos.issueCreateMilestone('alice', name, { title })).data.id ?? 0,
      /** How many open and closed ones a milestone counts. */
      async counts(milestone: number) {
        const { data } = await alice.repos.issueGetMilestone('alice', name, `${milestone}`)
        return [data.open_issues, data.closed_issues]
      },
      /** What the log has of a pull request from its n-th event on, without the background's findings. */
      async events(index: number, from = 1) {
        const events: { type: string; data: unknown }[] = []
        for await (const { type, data } of server.services.events.readStream(`pull-${repoId}.${index}`, {
          from,
        })) {
          if (type !== 'MergeabilityChecked') events.push({ type, data })
        }
        return events
      },
      id: (index: number) => ({ repoId, index }),
    }
  }

  /** A fork of alice's repository with a branch that has one commit more. */
  async function fork(test: Test, login: string, name: string, branch: string, repoName = name) {
    const made = await call(login, 'POST', `repos/alice/${name}/forks`, { name: repoName })
    if (made.status !== 202) throw new Error(`fork: ${made.status} ${JSON.stringify(made.body)}`)
    const work = await workTree(test, server.gitUrl(login, `${login}/${repoName}`))
    await work.git('checkout', '-q', '-b', branch)
    const tip = await work.commit(`Commit of ${login}`, { [`of-${login}`]: 'x\n' })
    await work.git('push', '-q', 'origin', branch)
    return { work, tip, repoId: Number(made.body.id) }
  }

  return { server, alice, bob, carol, dave, call, repository, fork }
}
