/** The path prefix of all addresses, when a proxy serves Mergelog below one; otherwise empty. */
export const basePath = (publicUrl: string): string => new URL(publicUrl).pathname.replace(/\/$/, '')

/**
 * Returns the prefix of the server's paths for a client that requested `host`: all of `PUBLIC_URL` when the client uses
 * it; otherwise only the path, because the scheme is unknown. @param configured `PUBLIC_URL`, when it is set
 */
export function baseFor(host: string, configured: string | undefined): string {
  if (configured === undefined) return ''
  const { host: own, origin } = new URL(configured)
  return `${host.toLowerCase() === own ? origin : ''}${basePath(configured)}`
}
