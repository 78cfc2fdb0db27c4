/** Finds secrets that the copied log names and a secret store lacks. */

import { passwordHashOf } from '../../auth/secrets.ts'
import { webhookConfigsOf } from '../../auth/webhook-configs.ts'
import type { ReadStore } from '../../projections/store/read-store.ts'
import type { LogReferences } from './log-references.ts'

/** Number of configurations per lookup. */
const BATCH = 500

/**
 * A secret is stored before the log names it, and never returns after its deletion. So a secret that is found existed
 * when the secrets were copied.
 */
export async function missingSecrets(
  secrets: ReadStore,
  { webhookConfigs, passwords }: Pick<LogReferences, 'webhookConfigs' | 'passwords'>,
): Promise<string[]> {
  const missing: string[] = []
  const configIds = [...webhookConfigs.values()]
  for (let i = 0; i < configIds.length; i += BATCH) {
    const batch = configIds.slice(i, i + BATCH)
    const found = await webhookConfigsOf(secrets, batch)
    missing.push(...batch.filter((id) => !found.has(id)).map((id) => `webhook configuration ${id}`))
  }
  for (const [userId, passwordId] of passwords) {
    const hash = await passwordHashOf(secrets, userId, passwordId)
    if (hash === undefined) missing.push(`password ${passwordId}`)
  }
  return missing
}
