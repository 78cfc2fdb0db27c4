/** Answers do not reveal hidden organizations, teams or repositories. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)

async function call(method: string, path: string, body?: object, login = 'dave') {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  return { status: answer.status, text: await answer.text() }
}

async function must(login: string, method: string, path: string, body?: object) {
  const { status, text } = await call(method, path, body, login)
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

await must('alice', 'POST', '/orgs', { username: 'closed', visibility: 'private' })
await must('alice', 'POST', '/orgs/closed/repos', { name: 'open', auto_init: true })
const units = ['repo.code', 'repo.issues', 'repo.pulls']
const { id: hiddenTeam } = await must('alice', 'POST', '/orgs/closed/teams', { name: 'core', units })
await must('dave', 'POST', '/orgs', { username: 'makers' })
await must('dave', 'POST', '/user/repos', { name: 'own', auto_init: true, template: true })
await must('dave', 'POST', '/repos/dave/own/branches', { new_branch_name: 'topic', old_branch_name: 'main' })
const pull = await must('dave', 'POST', '/repos/dave/own/pulls', { title: 'T', head: 'topic', base: 'main' })
const issue = await must('dave', 'POST', '/repos/dave/own/issues', { title: 'I' })
await must('dave', 'PATCH', '/repos/dave/own', { template: true })

const own = '/repos/dave/own'

t.test('an answer about a hidden organization equals that about an unused name', async (t) => {
  const requests = (name: string): [string, string, object?][] => [
    ['GET', `/users/${name}`],
    ['GET', `/orgs/${name}`],
    ['POST', `${own}/pulls`, { title: 'T', head: `${name}:main`, base: 'main' }],
    ['GET', `${own}/compare/main...${name}:main`],
    ['GET', `${own}/compare/main...${name}/open:main`],
    ['POST', `${own}/issues`, { title: 'T', assignee: name }],
    ['PATCH', `${own}/issues/${issue.number}`, { assignees: [name] }],
    ['PATCH', `${own}/pulls/${pull.number}`, { assignees: [name] }],
    ['POST', `${own}/pulls/${pull.number}/requested_reviewers`, { reviewers: [name] }],
    ['DELETE', `${own}/pulls/${pull.number}/requested_reviewers`, { reviewers: [name] }],
    ['POST', `${own}/transfer`, { new_owner: name }],
    ['POST', `${own}/forks`, { organization: name }],
    ['POST', `${own}/generate`, { owner: name, name: 'made', git_content: true }],
    ['PUT', `${own}/collaborators/${name}`, { permission: 'read' }],
    ['GET', `${own}/collaborators/${name}/permission`],
    ['POST', `${own}/tag_protections`, { name_pattern: 'v*', whitelist_usernames: [name] }],
    ['POST', `${own}/issues/${issue.number}/dependencies`, { owner: name, repo: 'open', index: 1 }],
    ['PUT', `/orgs/makers/members/${name}`, { permission: 'read' }],
    ['GET', `/repos/search?owner=${name}`],
    ['GET', `/repos/issues/search?owner=${name}`],
    ['GET', `/users/${name}/starred`],
    ['PUT', `/user/starred/${name}/open`],
  ]
  const answers = async (name: string) => {
    const found = []
    for (const [method, path, body] of requests(name)) {
      const { status, text } = await call(method, path, body)
      found.push({
        request: `${method} ${path}`.replace(name, 'NAME'),
        status,
        text: text.replaceAll(name, 'NAME'),
      })
    }
    return found
  }
  t.same(await answers('closed'), await answers('nobody'))
})

t.test('an answer about a hidden team equals that about an unused id', async (t) => {
  const transfer = async (id: number) => {
    const { status, text } = await call('POST', `${own}/transfer`, { new_owner: 'makers', team_ids: [id] })
    return { status, text: text.replaceAll(`team ${id}`, 'team ID') }
  }
  t.same(await transfer(hiddenTeam), await transfer(999_999))
  t.equal((await call('GET', `/teams/${hiddenTeam}`)).status, 404)
})
