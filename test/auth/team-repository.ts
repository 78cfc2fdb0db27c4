/** A server with the organization acme, its repository app, and the teams that a test makes. */
import { startTestServer } from '../start-server.ts'

/** Gitea's names of the units in which every team here has permissions. */
export const UNITS = ['repo.code', 'repo.issues', 'repo.pulls']

export async function startTeams(test: Parameters<typeof startTestServer>[0]) {
  const server = await startTestServer(test)
  const [alice] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])
  await server.as('dave')
  await alice.orgs.orgCreate({ username: 'acme' })
  await alice.orgs.createOrgRepo('acme', { name: 'app', auto_init: true })

  /** Sends a request below a path; resolves to its status and JSON. */
  const caller = (base: string) => async (login: string, method: string, path: string, option?: object) => {
    const init = { method, ...(option && { body: JSON.stringify(option) }) }
    const answer = await server.fetch(login, `/api/v1/${base}${path}`, init)
    const text = await answer.text()
    const body = text === '' ? null : JSON.parse(text)
    return { status: answer.status, body, message: String(body?.message ?? '') }
  }
  const onApp = caller('repos/acme/app/')

  return {
    server,
    alice,
    call: caller(''),
    /** Sends it below the path of acme's app. */
    onApp,
    /** Creates a team with acme's app; resolves to its id. */
    async team(name: string, permission: 'read' | 'write', ...members: string[]): Promise<number> {
      const { data } = await alice.orgs.orgCreateTeam('acme', { name, permission, units: UNITS })
      const id = data.id ?? 0
      await alice.teams.orgAddTeamRepository(id, 'acme', 'app')
      for (const member of members) await alice.teams.orgAddTeamMember(id, member)
      return id
    },
    /** Creates a branch of acme's app with a file of that name. */
    async branch(name: string, repo = 'app'): Promise<void> {
      const content = Buffer.from(name).toString('base64')
      await alice.repos.repoCreateFile('acme', repo, name, { content, new_branch: name })
    },
    /** Opens a pull request for a new branch of acme's app; resolves to its number. */
    async open(name: string): Promise<number> {
      await this.branch(name)
      const { body } = await onApp('alice', 'POST', 'pulls', { head: name, base: 'main', title: name })
      return body.number
    },
  }
}
