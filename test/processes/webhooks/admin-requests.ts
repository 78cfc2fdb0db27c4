/** Requests of webhook tests, as the site admin. */
import { ADMIN_PASSWORD } from '../../start-server.ts'

/** The `Authorization` of the site admin. */
export const admin = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`

/** Sends a POST. @throws an error with the answer when it is refused */
export async function send(url: string, path: string, body: object): Promise<void> {
  const headers = { authorization: admin, 'content-type': 'application/json' }
  const answer = await fetch(`${url}/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
}

/** The body that creates a webhook for issues with this URL. */
export const hook = (url: string) => ({
  type: 'gitea',
  config: { url, content_type: 'json', secret: 'key' },
  events: ['issues'],
  active: true,
})
