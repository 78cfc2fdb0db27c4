/** Creates the site admin at the first start. */
import { randomBytes } from 'node:crypto'
import { decode } from '../../events/codec.ts'
import { type EventStore, LOG_START } from '../../events/event-store.ts'
import { claimKeys, claimStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { FIRST_ADMIN } from '../accounts/names.ts'
import type { CommandContext } from '../execute.ts'
import { createUser } from './create.ts'

/** The next start continues a first start that was killed: both append the same events. */
const FIRST_START = { namespace: '0b7c1c0e-6f0f-4a57-8f0e-7f4f3c1d2a90', digest: 'first-start' }

/**
 * Creates the site admin `admin` unless it exists, with ADMIN_PASSWORD or a random password. Resolves to the password
 * when this call has chosen it: it is not stored, so it can be shown only now.
 */
export async function ensureSiteAdmin(
  services: Pick<Services, 'config' | 'events' | 'secrets'>,
): Promise<string | undefined> {
  if (await exists(services.events)) return undefined
  const chosen = randomBytes(15).toString('base64url')
  const context: CommandContext = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: 'first-start',
    causationId: 'first-start',
    retry: FIRST_START,
    written: LOG_START,
  }
  const details = { login: FIRST_ADMIN, email: `${FIRST_ADMIN}@localhost`, fullName: '', siteAdmin: true }
  await createUser(services, context, details, services.config.adminPassword ?? chosen)
  return services.config.adminPassword === undefined ? chosen : undefined
}

/** Whether the site admin exists. Reads the log, since the read models may lag. */
async function exists(events: EventStore): Promise<boolean> {
  const claim = claimStream(claimKeys.login(FIRST_ADMIN))
  for await (const recorded of events.readStream(claim, { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    if (event.type !== 'ClaimTaken') return false
    for await (const first of events.readStream(event.data.holder, { maxCount: 1 })) {
      return decode(first).type === 'UserCreated'
    }
  }
  return false
}
