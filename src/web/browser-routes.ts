/** Routes of which only browsers get the pages: programs get from the same paths what they get without these routes. */
import type { FastifyInstance, FastifySchema } from 'fastify'
import type { ScopeCategory } from '../auth/token-scopes.ts'

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0]
type Handlers = ReturnType<Strategy['storage']>

const NAME = 'client'
const BROWSER = 'browser'

/** Returns the options of such a route. `scope`: the scope that an access token needs. */
export const pageRoute = <C extends ScopeCategory, S extends FastifySchema>(scope: C, schema: S) => ({
  constraints: { [NAME]: BROWSER },
  config: { scope, forPages: true } as const,
  schema: { hide: true, ...schema },
})

/** The router's strategy. Browsers name HTML in `Accept`; `go get` reads HTML, too, but only the name of a module. */
const strategy: Strategy = {
  name: NAME,
  storage() {
    const handlers = new Map<unknown, ReturnType<Handlers['get']>>()
    return {
      get: (client) => handlers.get(client) ?? null,
      set: (client, handler) => void handlers.set(client, handler),
    }
  },
  deriveConstraint: ({ headers, url = '' }) =>
    headers.accept?.includes('text/html') && !url.includes('go-get=1') ? BROWSER : undefined,
}

/** Makes the router know the option. Call it before such routes are added. */
export function serveBrowsers(app: FastifyInstance): void {
  app.addConstraintStrategy(strategy)
}
