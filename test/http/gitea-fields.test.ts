/** Each field of a body and each parameter of a query that Gitea documents is documented here. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'
import { readDocumentation } from './documented.ts'
import { giteaFields } from './missing-routes.ts'

const server = await startTestServer(t)
const documentation = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())

t.test(
  'api.fields.1, api.fields.3: no body field and no query parameter that Gitea documents is silently ignored: gitea-js has none that is left',
  async (t) => {
    const compared = giteaFields(documentation)
    t.ok(compared.length > 150, `${compared.length} operations`)
    for (const { name, body, query } of compared) {
      t.strictSame(body, [], `the body of ${name}`)
      t.strictSame(query, [], `the query of ${name}`)
    }
  },
)
