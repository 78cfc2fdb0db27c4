/**
 * URLs and secrets of webhooks, in the secret store because URLs and headers often contain tokens. A configuration is
 * immutable: an edit creates another one, which its event names.
 */
import type { Collection, ReadStore } from '../projections/store/read-store.ts'

export interface WebhookConfig {
  id: string
  hookId: number
  url: string
  /** Key of the signatures; empty without one. */
  secret: string
  /** The header `Authorization`; empty without one. */
  authorization: string
}

export const webhookConfigs: Collection<WebhookConfig> = { name: 'webhook_configs', indexes: [], arrays: [] }

/** Secrets are not folded from the log, so they have no real position. */
const position = 0

/** Resolves when it is on disk. It takes effect with the event that names it. */
export async function keepWebhookConfig(secrets: ReadStore, body: WebhookConfig): Promise<void> {
  await secrets.apply([{ op: 'put', collection: webhookConfigs, id: body.id, position, body }], new Map())
}

/** Returns the configurations with these ids, by id; missing ones are left out. */
export async function webhookConfigsOf(
  secrets: ReadStore,
  ids: readonly string[],
): Promise<Map<string, WebhookConfig>> {
  if (ids.length === 0) return new Map()
  const found = await secrets.getMany(webhookConfigs, ids)
  return new Map(found.map(({ id, body }) => [id, body]))
}

export async function forgetWebhookConfig(secrets: ReadStore, id: string): Promise<void> {
  await secrets.apply([{ op: 'delete', collection: webhookConfigs, id }], new Map())
}
