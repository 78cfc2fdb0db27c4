/** Each field of a body and each parameter of a query that Gitea documents is here, or in a list of those that are not. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'
import type { Documentation } from './documented.ts'
import { giteaFields } from './not-here.ts'

const OF_REPOSITORIES = [
  'gitignores',
  'issue_labels',
  'license',
  'object_format_name',
  'readme',
  'trust_model',
]

/** Refused by name, as every unknown field is. */
const NOT_IN_BODIES: Readonly<Record<string, readonly string[]>> = {
  'POST /admin/users': ['created_at', 'login_name', 'send_notify', 'source_id'],
  'POST /orgs/{org}/repos': OF_REPOSITORIES,
  'POST /user/repos': OF_REPOSITORIES,
  'POST /repos/{owner}/{repo}/issues': ['ref'],
  'PATCH /repos/{owner}/{repo}/issues/{index}': ['ref'],
  'POST /repos/{owner}/{repo}/pulls': ['reviewers', 'team_reviewers'],
}

const NOT_IN_QUERIES: Readonly<Record<string, readonly string[]>> = {
  'GET /admin/users': ['login_name'],
  'GET /repos/issues/search': ['mentioned', 'team'],
  'GET /repos/{owner}/{repo}/issues': ['mentioned_by'],
  'GET /repos/{owner}/{repo}/keys': ['key_id'],
  'GET /repos/{owner}/{repo}/pulls/{index}.{diffType}': ['binary'],
}

const server = await startTestServer(t)
const documentation: Documentation = JSON.parse(await (await server.fetch(null, '/api/openapi.json')).text())

t.test('a test compares all bodies and queries with the types of gitea-js', async (t) => {
  const compared = giteaFields(documentation)
  t.ok(compared.length > 150, `${compared.length} operations`)
  for (const { name, body, query } of compared) {
    // What is implemented meanwhile may still be in the list.
    const unlisted = (missing: readonly string[], listed: readonly string[] = []) =>
      missing.filter((field) => !listed.includes(field))
    t.strictSame(unlisted(body, NOT_IN_BODIES[name]), [], `the body of ${name}`)
    t.strictSame(unlisted(query, NOT_IN_QUERIES[name]), [], `the query of ${name}`)
  }
})
