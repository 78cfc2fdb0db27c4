/** Every route × role × kind of repository. The table is in `route-rows.ts`; a route without a row fails. */
import t from 'tap'
import { ROWS, statusesIn } from './route-rows.ts'
import { type Call, KINDS, ROLES, type Role, routesOf, startWorld } from './route-world.ts'

const world = await startWorld(t)
const { app, services, send, place } = world
const routes = routesOf(app)

t.test('every route has a row, and every row a route', async (t) => {
  const names = routes.map(({ name }) => name)
  t.ok(names.length > 100)
  t.same(
    names.filter((name) => ROWS[name] === undefined),
    [],
    'routes without a row in test/auth/route-rows.ts',
  )
  t.same(
    Object.keys(ROWS).filter((route) => !names.includes(route)),
    [],
    'rows without a route',
  )
})

const isRole = (name: string): name is Role => Object.hasOwn(ROLES, name)
const roles = Object.keys(ROLES).filter(isRole)

/** Whether a refusal depends on a name in the body: another repository, an owner, a key. */
const isOfWhatIsNamed = (name: string, status: number) =>
  (status === 403 && /\/(blocks|generate)$/.test(name)) || (status === 404 && name.endsWith('gpg_key_verify'))

/** Bodies that every route refuses. */
const NOT_VALID = [
  ['application/json', '[]'],
  ['application/json', '{'],
  ['text/plain', '{}'],
] as const

for (const [k, kind] of KINDS.entries()) {
  t.test(`api.access.2, api.access.3: every route answers each role as its row says: ${kind}`, async (t) => {
    const here = await place(kind)
    // Among the permitted roles, the weakest and the strongest change data: each change needs a fresh target.
    const whoChanges = { public: [0, -1], private: [0], 'private organization': [-1] }[kind]
    for (const { method, url, name, headers } of routes) {
      const row = ROWS[name]
      if (row === undefined) continue
      const kinds = statusesIn(row.who)
      // A row with one part does not concern a repository: it was tried with the first kind.
      if (kinds.length === 1 && k > 0) continue
      const expected = kinds[Math.min(k, kinds.length - 1)] ?? []
      const isLetIn = (_: Role, i: number) => (expected[i] ?? 0) < 400
      const letIn = roles.filter(isLetIn)
      const changing = whoChanges.map((i) => letIn.at(i))
      const asked = roles.filter(
        (role) => method === 'GET' || !letIn.includes(role) || changing.includes(role),
      )
      const found: string[] = []
      // A target is reused until a request has changed it.
      let target: Call | undefined
      for (const role of asked) {
        target ??= (await row.call?.(here, world)) ?? {}
        const path = { owner: here.owner, repo: here.repo, ...target.path }
        const before = await services.events.lastPosition()
        const { status, text } = await send(ROLES[role], method, url, {
          ...target,
          path,
          headers: { ...headers, ...target.headers },
        })
        found.push(`${role} ${status}`)
        if (status >= 500) t.fail(`${name} as ${role}: ${status} ${text.slice(0, 200)}`)
        if (method === 'GET') continue
        if (status < 400) {
          target = undefined
          continue
        }
        const types = await Array.fromAsync(services.events.readAll({ from: before }), (event) => event.type)
        // A merge marks the pull request as read, even if it is refused (`merge.1`). Processes of the server add events
        // of their own.
        const changed = types.filter(
          (type) =>
            !['IssueRead', 'MergeabilityChecked', 'MergeBaseMoved', 'LeftDocumentsRemoved'].includes(type),
        )
        t.same(changed, [], `${name} as ${role}: what is refused changes nothing`)
        // Where all roles are refused, the body is the reason.
        const isOfRights = letIn.length > 0 && [401, 403, 404].includes(status)
        if (typeof target.body !== 'object' || !isOfRights || isOfWhatIsNamed(name, status)) continue
        for (const [type, body] of NOT_VALID) {
          const odd = await send(ROLES[role], method, url, {
            ...target,
            path,
            headers: { ...target.headers, 'content-type': type },
            body,
          })
          t.equal(odd.status, status, `authorization before validation: ${name} as ${role}, ${body}`)
        }
      }
      const wanted = asked.map((role) => `${role} ${expected[roles.indexOf(role)]}`)
      t.strictSame(found, wanted, `${name} (${kind})`)
    }
  })
}
