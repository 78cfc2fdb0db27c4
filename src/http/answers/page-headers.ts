/** Response headers of pages. */

/** Returns the policy of a page without scripts, frames and forms, with the page's own additions. */
export function contentPolicy(own: Readonly<Record<string, string>> = {}): string {
  const policy = {
    'default-src': "'none'",
    'script-src': "'self'",
    'style-src': "'self'",
    'img-src': "'self'",
    'connect-src': "'self'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
    ...own,
  }
  return Object.entries(policy)
    .map(([directive, source]) => `${directive} ${source}`)
    .join('; ')
}

/** The headers of a page with this policy, with `X-Frame-Options` for older browsers. */
export function pageHeaders(policy: string): Record<string, string> {
  return {
    'Content-Security-Policy': policy,
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'X-Frame-Options': 'DENY',
  }
}
