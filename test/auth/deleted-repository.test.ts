/** The data of a deleted repository is hidden on every route, even if another repository has its name. */
import t from 'tap'
import { type Call, ROLES, routesOf, startWorld } from './route-world.ts'
import { MARK, makeSampleRepository } from './sample-repository.ts'

const world = await startWorld(t)
const { app, send, must } = world

/** They report server state, never end, or are the pages of the API's documentation. */
const OTHERS = /history|\/live$|\/api\/docs|openapi|metrics|\/ui\/assets/

t.test(
  'the data of a deleted repository is hidden on every route, also in resources that are created later',
  async (t) => {
    const was = await makeSampleRepository(world)
    const { owner, repo, base, head } = was
    // An issue elsewhere depends on one of the repository, and a pull request comes from a fork of it.
    await must('bob', 'POST', '/user/repos', { name: 'elsewhere', auto_init: true })
    const waiting = await must<{ number: number }>('bob', 'POST', '/repos/bob/elsewhere/issues', {
      title: 'w',
    })
    await must('bob', 'POST', `/repos/bob/elsewhere/issues/${waiting.number}/dependencies`, {
      ...{ owner, repo, index: was.issue },
    })
    const paths = ['main', head, MARK, `${was.there.release.tag}/${MARK}.txt`, 'heads/topic', 'topic']
    const routes = routesOf(app).filter(({ method, url }) => method === 'GET' && !OTHERS.test(url))

    /** Returns the answers that show data of the repository to these users. */
    async function shown(queries: readonly Record<string, string>[], logins: readonly (string | null)[]) {
      const found = new Set<string>()
      for (const { method, url } of routes) {
        const hasId = /:(id|attachment_id|uuid)\b/.test(url)
        const ids = hasId ? (url.includes(':uuid') ? was.uuids : was.ids) : [0]
        const wild = url.includes('*') ? paths : ['']
        for (const id of ids) {
          for (const path of wild) {
            // A query cannot select a list behind an id or a path.
            for (const query of hasId || url.includes('*') ? queries.slice(0, 1) : queries) {
              const names = {
                owner,
                repo,
                username: owner,
                org: 'closed',
                team: 'Owners',
                collaborator: 'bob',
              }
              const index = url.includes('pulls') ? was.pull : was.issue
              const call: Call = {
                path: { ...names, index, sha: head, id, attachment_id: id, uuid: id, '*': path },
                query,
              }
              // Other roles see no more here than these two.
              for (const login of hasId || url.includes('*') ? logins.slice(0, 2) : logins) {
                const { status, text } = await send(login, method, url, call)
                if (status >= 500 && status !== 503)
                  t.fail(`${url} as ${login}: ${status} ${text.slice(0, 200)}`)
                // Refusals and search fields contain what was sent.
                const answer = text.replaceAll(`value="${MARK}"`, '')
                if (status < 300 && answer.includes(MARK))
                  found.add(`${login} ${url} ${JSON.stringify(query)}`)
              }
            }
          }
        }
      }
      return found
    }

    const queries = [{}, { q: MARK, all: 'true', state: 'all' }]
    const everybody = [ROLES.admin, ROLES['site admin'], ROLES.writer, null]
    const before = await shown([{}], [ROLES.admin])
    t.ok(before.size > 30, `${before.size} answers show it while it is there`)
    await must('alice', 'DELETE', base)
    t.same([...(await shown(queries, everybody))], [], 'deleted')

    await must('alice', 'POST', '/user/repos', { name: repo, auto_init: true })
    for (const login of ['alice', 'alice']) await must(login, 'POST', `${base}/issues`, { title: 'new' })
    t.same([...(await shown(queries, everybody))], [], 'made again under the same name')
    for (const login of ['alice', 'bob', 'carol', 'dave', 'admin']) {
      const read = (path: string) => must<{ new: number }>(login, 'GET', path)
      t.same(await read('/notifications/new'), { new: 0 }, login)
      t.same(
        await must(login, 'GET', '/notifications?all=true&status-types=unread&status-types=read'),
        [],
        login,
      )
      const about = (await send(login, 'GET', '/api/v1/repos/issues/search', { query: { state: 'all' } }))
        .text
      t.notMatch(about, /"title":"(Issue|branch|zanzibar)/, login)
    }
    t.match(await must('bob', 'GET', `/repos/bob/elsewhere/issues/${waiting.number}/dependencies`), [])
    t.match(await must('alice', 'GET', base), { open_issues_count: 2, open_pr_counter: 0, stars_count: 0 })
    t.match(
      await must('bob', 'PATCH', `/repos/bob/elsewhere/issues/${waiting.number}`, { state: 'closed' }),
      {
        state: 'closed',
      },
    )
  },
)
