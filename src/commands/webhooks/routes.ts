/** Creates, changes, deletes and tests webhooks of repositories, organizations, users and the site. */
import { randomUUID } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { v5 as uuidV5 } from 'uuid'
import { onRepository } from '../../access/repository-access.ts'
import {
  HookWire,
  hookWires,
  WEBHOOK_OWNERS,
  webhookFor,
  webhookIdOf,
  webhookScopeFor,
} from '../../api/webhooks/webhooks.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { forgetWebhookConfig, keepWebhookConfig, webhookConfigsOf } from '../../auth/webhook-configs.ts'
import { NO_HOSTS } from '../../config/outside-addresses.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { WebhookScope } from '../../events/catalog/webhooks.ts'
import { idsStream } from '../../events/streams.ts'
import { createOutboundHttp } from '../../http/outbound/outbound-http.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import { webhookScopeKey } from '../../projections/models/webhooks/webhooks.fold.ts'
import { webhooks } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { CreateHookOption, EditHookOption, newWebhook, wantedBy, withoutSecrets } from './options.ts'
import {
  decideCreateWebhook,
  decideDeleteWebhook,
  decideEditWebhook,
  decideTestWebhook,
  type WebhookState,
} from './webhook.decider.ts'

/** Maximum number of webhooks of a repository, an account or the site: each event is sent to all. */
export const MAX_WEBHOOKS = 50

export const webhookRoutes: Routes = (services) => {
  const { secrets, views, runExclusive, config } = services
  const outside = createOutboundHttp(config.webhookAllowedHosts ?? NO_HOSTS)

  /** Returns a new id; the same one for a retried request. */
  const newConfigId = ({ retry }: CommandContext, hookId: number) =>
    retry === undefined ? randomUUID() : uuidV5(`webhook ${hookId}`, retry.namespace)

  /** Builds the wire form from the webhook's own events, since the read model may lag. */
  async function wireOf(state: WebhookState, at: string): Promise<Static<typeof HookWire>> {
    if (state.status !== 'active') throw new Refused(refuse.notFound('webhook not found'))
    const { webhook } = state
    const known = await views.webhooks.get(`${webhook.id}`)
    const times = { createdAt: known?.createdAt ?? at, updatedAt: known?.updatedAt ?? at }
    const place = { scopeKey: webhookScopeKey(webhook.scope), madeAt: known?.madeAt ?? 0 }
    const [wire] = await hookWires(services, [{ ...webhook, ...times, ...place }])
    if (wire === undefined) throw new Error(`webhook ${webhook.id} has no wire form`)
    return wire
  }

  async function requireBelowLimit(scope: WebhookScope): Promise<void> {
    if ((await views.webhooks.count({ scopeKey: webhookScopeKey(scope) })) < MAX_WEBHOOKS) return
    throw new Refused(refuse.unprocessable(`there can be at most ${MAX_WEBHOOKS} webhooks here`))
  }

  return async (app) => {
    for (const { scope: category, url, all, one } of WEBHOOK_OWNERS) {
      app.post(
        url,
        route(category, { params: all, body: CreateHookOption, response: { 201: HookWire } }),
        async (request, reply) => {
          const scope = await webhookScopeFor(services, request, request.params, url)
          const context = commandContext(request, withoutSecrets(request.body))
          if (url === '/admin/hooks' && request.body.config.is_system_webhook === 'false') {
            const problem =
              'config.is_system_webhook: must be true; default webhooks of new repositories are not supported'
            throw new Refused(refuse.unprocessable(problem))
          }
          const wanted = newWebhook(request.body, outside)
          // Under a lock, so that concurrent requests stay within the limit.
          const state = await runExclusive(`webhooks of ${webhookScopeKey(scope)}`, async () => {
            const id = await takeNumber(services, context, idsStream('webhook'))
            const configId = newConfigId(context, id)
            // Configurations never change: a retried request keeps that of the first attempt.
            if ((await webhooks.ifDone(services, context, id, 'create')) === undefined) {
              await requireBelowLimit(scope)
              await keepWebhookConfig(secrets, { id: configId, hookId: id, ...wanted.config })
            }
            const made = await webhooks.change(services, context, id, 'create', (state) =>
              decideCreateWebhook(state, { id, scope, ...wanted.settings, configId }),
            )
            await settled(services, context, reply)
            return made
          })
          return reply.code(201).send(await wireOf(state, context.at))
        },
      )

      app.patch(
        `${url}/:id`,
        route(category, { params: one, body: EditHookOption, response: { 200: HookWire } }),
        async (request, reply) => {
          const scope = await webhookScopeFor(services, request, request.params, url)
          const hook = await webhookFor(services, scope, request.params.id)
          const before = (await webhookConfigsOf(secrets, [hook.configId])).get(hook.configId)
          const { url: oldUrl, secret, authorization } = before ?? { url: '', secret: '', authorization: '' }
          const old = { url: oldUrl, secret, authorization }
          const wanted = wantedBy(request.body, old, outside)
          const context = commandContext(request)
          const isOther = JSON.stringify(wanted.config) !== JSON.stringify(old)
          const configId = isOther ? newConfigId(context, hook.id) : hook.configId
          if (isOther) await keepWebhookConfig(secrets, { id: configId, hookId: hook.id, ...wanted.config })
          const state = await webhooks
            .change(services, context, hook.id, 'edit', (state) =>
              decideEditWebhook(state, scope, hook.configId, { ...wanted.settings, configId }),
            )
            .catch(async (error: unknown) => {
              // After a refusal there is no event. After another failure there may be one.
              if (isOther && error instanceof Refused) await forgetWebhookConfig(secrets, configId)
              throw error
            })
          await settled(services, context, reply)
          return wireOf(state, context.at)
        },
      )

      app.delete(
        `${url}/:id`,
        route(category, { params: one, response: NO_CONTENT }),
        async (request, reply) => {
          const scope = await webhookScopeFor(services, request, request.params, url)
          const context = commandContext(request)
          await webhooks.change(services, context, webhookIdOf(request.params.id), 'delete', (state) =>
            decideDeleteWebhook(state, scope),
          )
          await settled(services, context, reply)
          return reply.code(204).send(null)
        },
      )
    }

    app.post(
      '/repos/:owner/:repo/hooks/:id/tests',
      route('repository', {
        params: Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() }),
        querystring: Type.Object({
          ref: Type.Optional(
            Type.String({
              description: 'Branch whose newest commit is sent; default: the default branch',
            }),
          ),
        }),
        response: NO_CONTENT,
      }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const scope: WebhookScope = { kind: 'repository', repoId: repository.id }
        const hook = await webhookFor(services, scope, request.params.id)
        const name = (request.query.ref ?? '').replace(/^refs\/heads\//, '') || repository.defaultBranch
        const branch = await views.branches.get(branchId(repository.id, name))
        if (branch === undefined && request.query.ref) throw new Refused(refuse.notFound('branch not found'))
        // An empty repository has nothing to send, as in Gitea.
        if (branch !== undefined) {
          const context = commandContext(request)
          const commit = { repoId: repository.id, branch: name, sha: branch.commit.sha }
          await webhooks.change(services, context, hook.id, 'test', (state) =>
            decideTestWebhook(state, scope, commit),
          )
          await settled(services, context, reply)
        }
        return reply.code(204).send(null)
      },
    )
  }
}
