/** The request of a delivery: body, headers and signatures, as in Gitea. */
import { createHmac } from 'node:crypto'
import { eventHeaderOf } from '../../api/webhooks/webhooks.ts'
import type { WebhookConfig } from '../../auth/webhook-configs.ts'
import type { HookContentType } from '../../events/catalog/webhooks.ts'
import type { OutboundPost } from '../../http/outbound/outbound-http.ts'
import type { WebhookDelivery } from '../../projections/models/webhooks/webhook-deliveries.fold.ts'
import { VERSION } from '../../storage/version.ts'

const signed = (algorithm: 'sha1' | 'sha256', secret: string, text: string) =>
  secret === '' ? '' : createHmac(algorithm, secret).update(text).digest('hex')

/** Creates the request. Signatures cover the JSON, also when a form carries it. Without a secret they are empty, as in Gitea. */
export function deliveryRequest(
  { id, event }: Pick<WebhookDelivery, 'id' | 'event'>,
  contentType: HookContentType,
  { url, secret, authorization }: WebhookConfig,
  json: string,
): Omit<OutboundPost, 'signal'> {
  const body = contentType === 'json' ? json : new URLSearchParams({ payload: json }).toString()
  const name = eventHeaderOf(event)
  const sha256 = signed('sha256', secret, json)
  return {
    url: new URL(url),
    body,
    authorization: authorization === '' ? undefined : authorization,
    headers: {
      'content-type': contentType === 'json' ? 'application/json' : 'application/x-www-form-urlencoded',
      'content-length': `${Buffer.byteLength(body)}`,
      'user-agent': `Mergelog/${VERSION}`,
      'X-Gitea-Delivery': id,
      'X-Gitea-Event': name,
      'X-Gitea-Event-Type': event,
      'X-Gitea-Signature': sha256,
      'X-Gogs-Delivery': id,
      'X-Gogs-Event': name,
      'X-Gogs-Event-Type': event,
      'X-Gogs-Signature': sha256,
      'X-Hub-Signature': `sha1=${signed('sha1', secret, json)}`,
      'X-Hub-Signature-256': `sha256=${sha256}`,
      'X-GitHub-Delivery': id,
      'X-GitHub-Event': name,
      'X-GitHub-Event-Type': event,
    },
  }
}
