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
    'routes without a row in test/rights/route-rows.ts',
  )
  t.same(
    Object.keys(ROWS).filter((route) => !names.includes(route)),
    [],
    'rows without a route',
  )
})

const isRole = (name: string): name is Role => Object.hasOwn(ROLES, name)
const roles = Object.keys(ROLES).filter(isRole)

for (const [k, kind] of KINDS.entries()) {
  t.test(`every route answers each role as its row says: ${kind}`, async (t) => {
    const here = await place(kind)
    for (const { method, url, name } of routes) {
      const row = ROWS[name]
      if (row === undefined) continue
      const kinds = statusesIn(row.who)
      // A row with one part is of no repository: it has been tried with the first kind.
      if (kinds.length === 1 && k > 0) continue
      const expected = kinds[Math.min(k, kinds.length - 1)]
      const found: number[] = []
      // A target serves until a request has changed it.
      let target: Call | undefined
      for (const role of roles) {
        target ??= (await row.call?.(here, world)) ?? {}
        const path = { owner: here.owner, repo: here.repo, ...target.path }
        const before = await services.events.lastPosition()
        const { status, text } = await send(ROLES[role], method, url, { ...target, path })
        found.push(status)
        if (status >= 500) t.fail(`${name} as ${role}: ${status} ${text.slice(0, 200)}`)
        if (method === 'GET') continue
        if (status < 400) {
          target = undefined
          continue
        }
        const types = await Array.fromAsync(services.events.readAll({ from: before }), (event) => event.type)
        // A merge marks the pull request as read, also when it is refused (merge rule 1). The server reacts for itself.
        const changed = types.filter(
          (type) => !['IssueRead', 'MergeabilityChecked', 'MergeBaseMoved'].includes(type),
        )
        t.same(changed, [], `${name} as ${role}: what is refused changes nothing`)
      }
      t.equal(found.join(' '), expected?.join(' '), `${name} (${kind})`)
    }
  })
}
