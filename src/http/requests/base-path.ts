/** The path below which clients reach the server. A proxy may serve Mergelog below one; otherwise it is empty. */
export const basePath = (publicUrl: string): string => new URL(publicUrl).pathname.replace(/\/$/, '')

/**
 * What comes before a path of the server when a client asks for `host`: all of `PUBLIC_URL`, when the client uses it. Who
 * uses another address stays there, and gets a path only: we may not know its scheme.
 *
 * @param configured `PUBLIC_URL`, when it is set
 */
export function baseFor(host: string, configured: string | undefined): string {
  if (configured === undefined) return ''
  const { host: own, origin } = new URL(configured)
  return `${host.toLowerCase() === own ? origin : ''}${basePath(configured)}`
}
