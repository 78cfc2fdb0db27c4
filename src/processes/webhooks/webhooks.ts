/**
 * Webhooks: a process that stores the deliveries of an event, and a worker that sends them, so a crash loses none. One
 * node runs both. A webhook gets its deliveries one by one in log order; a slow webhook blocks no other.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { globMatches } from '../../access/glob.ts'
import { forgetWebhookConfig } from '../../auth/webhook-configs.ts'
import { webhooks } from '../../commands/execution/aggregates.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { forEachSettled } from '../../commands/execution/for-each-settled.ts'
import { decideDeleteWebhook } from '../../commands/webhooks/webhook.decider.ts'
import { timeSlices } from '../../concurrency/event-loop.ts'
import { NO_HOSTS } from '../../config/outside-addresses.ts'
import type { WebhookScope } from '../../events/catalog/webhooks.ts'
import type { DomainEvent, Recorded } from '../../events/domain-events.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'
import { createOutboundHttp } from '../../http/outbound/outbound-http.ts'
import { type WebhookDocument, webhookScopeKey } from '../../projections/models/webhooks/webhooks.fold.ts'
import type { Services } from '../../services/services.ts'
import { type Lease, type ProcessManager, processManager } from '../process-manager.ts'
import { type DeliveryPart, deliveriesOf } from './delivery-chain.ts'
import { type Notice, notices } from './notices.ts'
import { GIVEN_UP_AFTER_MS } from './retries.ts'
import { createSender } from './sender.ts'

/** Pause while a store is unavailable, in milliseconds. */
const RETRY_MS = 1000

export interface Webhooks {
  manager: ProcessManager
  /** Begins to deliver while this node runs the process. Call it after the recovery and before the process runs. */
  start(lease: Lease): void
  /** Resolves when the worker has ended, after the signal was aborted. */
  stopped(): Promise<void>
}

export function createWebhooks(services: Services, signal: AbortSignal): Webhooks {
  const { views, secrets, config } = services
  const outbound = createOutboundHttp(config.webhookAllowedHosts ?? NO_HOSTS)
  const sender = createSender(services, outbound, signal)
  /** Position of the last event with stored deliveries. */
  let newest = services.startedAfter

  const hooksOf = async (scope: WebhookScope) =>
    views.webhooks.getMany([...(await views.webhooks.ids({ scopeKey: webhookScopeKey(scope) }))])

  /** Returns the webhooks of a repository, its owner and the site, and the owner, whose scheduling share they use. */
  async function hooksAround({ repoId, ...notice }: Notice) {
    const ownerId = notice.ownerId ?? (await views.repositories.get(`${repoId}`))?.ownerId
    if (ownerId === undefined) return { ownerId: 0, hooks: [] }
    const scopes: WebhookScope[] = [
      { kind: 'repository', repoId },
      { kind: 'owner', ownerId },
      { kind: 'site' },
    ]
    return { ownerId, hooks: (await Promise.all(scopes.map(hooksOf))).flat() }
  }

  /** Stores the deliveries of an event. */
  async function storeDeliveries(event: Recorded<DomainEvent>): Promise<void> {
    // An event that arrives for the first time is new, whatever the clock of its server says.
    const at = event.position > newest ? Date.now() : Date.parse(event.metadata.at)
    newest = Math.max(newest, event.position)
    // After a loss of the store all events come again: old ones were sent or given up.
    if (Date.now() - at > GIVEN_UP_AFTER_MS) return
    const slices = timeSlices('webhooks')
    const wanted = new Map<number, { ownerId: number; parts: DeliveryPart[] }>()
    // A push of many refs concerns one repository.
    const around = new Map<number, ReturnType<typeof hooksAround>>()
    for (const [part, notice] of notices.of(event).entries()) {
      const found = around.get(notice.repoId) ?? hooksAround(notice)
      around.set(notice.repoId, found)
      const { ownerId, hooks } = await found
      for (const hook of hooks) {
        if (event.position <= hook.madeAt || !wants(hook, notice)) continue
        const one = wanted.get(hook.id) ?? { ownerId, parts: [] }
        wanted.set(hook.id, one)
        one.parts.push({ part, event: notice.event })
        if (slices.isOver()) await slices.next()
      }
    }
    if (wanted.size === 0) return
    await sender.add(
      [...wanted].map(([hookId, { ownerId, parts }]) => deliveriesOf(event, { hookId, ownerId, at }, parts)),
    )
  }

  /** Does the work when the stores answer again. */
  async function whenStored(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error
        await delay(RETRY_MS, undefined, { signal })
      }
    }
  }

  async function deleteHooks(context: CommandContext, scope: WebhookScope): Promise<void> {
    await forEachSettled(await hooksOf(scope), ({ id }) => deleteHook(context, scope, id))
  }

  async function deleteHook(context: CommandContext, scope: WebhookScope, id: number): Promise<void> {
    const own = { ...context, actor: null }
    await webhooks.change(services, own, id, 'delete webhook', (state) =>
      state.status === 'active' ? decideDeleteWebhook(state, scope) : [],
    )
  }

  const cleanup = processManager('webhooks', {
    RepositoryDeleted: (context, { data }) =>
      deleteHooks(context, { kind: 'repository', repoId: data.repoId }),
    UserDeleted: (context, { data }) => deleteHooks(context, { kind: 'owner', ownerId: data.user.id }),
    OrganizationDeleted: (context, { data }) =>
      deleteHooks(context, { kind: 'owner', ownerId: data.organization.id }),
    /** It was created while its repository or owner was being deleted. */
    async WebhookCreated(context, { data: { id, scope } }) {
      const isGone =
        (scope.kind === 'repository' && (await views.repositories.get(`${scope.repoId}`)) === undefined) ||
        (scope.kind === 'owner' && (await views.accounts.get(`${scope.ownerId}`))?.deleted === true)
      if (isGone) await deleteHook(context, scope, id)
    },
    async WebhookEdited(_, { data }) {
      if (data.replacedConfigId !== undefined) await forgetWebhookConfig(secrets, data.replacedConfigId)
    },
    async WebhookDeleted(_, { data }) {
      await sender.forget(data.id)
      await forgetWebhookConfig(secrets, data.configId)
    },
  })

  return {
    manager: {
      name: 'webhooks',
      handles: (event) => notices.handles(event) || cleanup.handles(event),
      async concerns(event) {
        return cleanup.handles(event) || (await views.webhooks.count({})) > 0
      },
      async react(event, context) {
        // The process continues after some failures, which must not lose deliveries.
        await whenStored(() => storeDeliveries(event))
        await cleanup.react(event, context)
      },
    },
    start: sender.start,
    stopped: sender.stopped,
  }
}

/** Whether a webhook gets a notice. */
function wants(hook: WebhookDocument, { hookId, event, branch }: Notice): boolean {
  if (hookId !== undefined) return hook.id === hookId
  const { active, events, branchFilter } = hook
  const matchesBranch = branch === undefined || branchFilter === '' || globMatches(branchFilter, branch)
  return active && events.includes(event) && matchesBranch
}
