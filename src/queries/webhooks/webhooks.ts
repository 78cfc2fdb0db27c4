/** Reads webhooks of repositories, organizations, users and the site, and their deliveries. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import {
  DeliveryWire,
  deliveryWire,
  HookWire,
  hookWires,
  WEBHOOK_OWNERS,
  webhookFor,
  webhookScopeFor,
} from '../../api/webhooks/webhooks.ts'
import { pageOf, sendPaging } from '../../http/requests/paging.ts'
import { webhookScopeKey } from '../../projections/models/webhooks/webhooks.fold.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, pagedList } from '../paged-list.ts'

export function webhookQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { webhooks } = services.views
  return async (app) => {
    for (const { scope, url, all, one } of WEBHOOK_OWNERS) {
      const config = { scope }
      const tags = [scope]

      app.get(
        url,
        { config, schema: { tags, params: all, ...listSchema(HookWire) } },
        async (request, reply) => {
          const found = await webhookScopeFor(services, request, request.params, url)
          const hooks = await pagedList(services, request, reply, {
            view: webhooks,
            filter: { scopeKey: webhookScopeKey(found) },
            sort: [['id', 1]],
          })
          return hookWires(services, hooks)
        },
      )

      app.get(
        `${url}/:id`,
        { config, schema: { tags, params: one, response: { 200: HookWire } } },
        async (request) => {
          const found = await webhookScopeFor(services, request, request.params, url)
          const hook = await webhookFor(services, found, request.params.id)
          const [wire = notWired(hook.id)] = await hookWires(services, [hook])
          return wire
        },
      )

      app.get(
        `${url}/:id/deliveries`,
        { config, schema: { tags, params: one, ...listSchema(DeliveryWire) } },
        async (request, reply) => {
          const found = await webhookScopeFor(services, request, request.params, url)
          const hook = await webhookFor(services, found, request.params.id)
          const page = pageOf(request.query, services.config)
          const { rows, total } = await services.webhookDeliveries.page(hook.id, page)
          sendPaging(request, reply, services.publicUrl(), page, total)
          return rows.flatMap((row) => ('body' in row ? [deliveryWire(row.body)] : []))
        },
      )
    }
  }
}

function notWired(id: number): never {
  throw new Error(`webhook ${id} has no wire form`)
}
