/** Checks logins, e-mail addresses and texts by Gitea's rules. */
import { FIRST_ADMIN } from '../../../projections/models/users/accounts.fold.ts'

export const MAX_LOGIN = 40
const MAX_EMAIL = 254

/** Reserved logins: paths of this server, or of Gitea. */
const RESERVED = new Set([
  '.well-known',
  'admin',
  'api',
  'assets',
  'attachments',
  'avatar',
  'avatars',
  'captcha',
  'commits',
  'cosmos',
  'debug',
  'error',
  'explore',
  'favicon.ico',
  'ghost',
  'gitea-actions',
  'healthz',
  'issues',
  'livez',
  'login',
  'manifest.json',
  'metrics',
  'milestones',
  'new',
  'notifications',
  'org',
  'orgs',
  'pulls',
  'raw',
  'repo',
  'repo-avatars',
  'repos',
  'robots.txt',
  'sdk',
  'search',
  'serviceworker.js',
  'ssh_info',
  'swagger.v1.json',
  'ui',
  'user',
  'users',
  'v2',
])

/** Reserved endings: a feed, a key file or a clone URL after `/{login}`. */
const RESERVED_ENDINGS = ['.git', '.wiki', '.keys', '.gpg', '.rss', '.atom', '.png']

/** Returns what is invalid in a login; undefined for a valid one. */
export function loginProblem(login: string, siteAdmin = false): string | undefined {
  if (login === '') return 'must not be empty'
  if (login.length > MAX_LOGIN) return `must have at most ${MAX_LOGIN} characters`
  if (!/^[0-9A-Za-z][-.\w]*$/.test(login)) {
    return "may only have letters, digits, '-', '_' and '.', and must begin with a letter or a digit"
  }
  if (/[-._]{2}|[-._]$/.test(login)) return "must not end with '-', '_' or '.', or have two of them in a row"
  const key = login.toLowerCase()
  if (siteAdmin && key === FIRST_ADMIN) return undefined
  if (RESERVED.has(key)) return `"${login}" is reserved`
  const ending = RESERVED_ENDINGS.find((reserved) => key.endsWith(reserved))
  return ending === undefined ? undefined : `must not end with "${ending}"`
}

const LOCAL_PART = /^[0-9A-Za-z!#$%&'*+/=?^_`{|}~][-.0-9A-Za-z!#$%&'*+/=?^_`{|}~]{0,63}$/
const DOMAIN_LABEL = /^[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?$/

/** Returns what is invalid in an e-mail address; undefined for a valid one. `admin@localhost` is valid. */
export function emailProblem(email: string): string | undefined {
  if (email === '') return 'must not be empty'
  // Before the split: megabytes of dots would become as many texts.
  if (email.length > MAX_EMAIL) return 'is not an e-mail address'
  const at = email.lastIndexOf('@')
  const domain = email.slice(at + 1).split('.')
  const isAddress =
    LOCAL_PART.test(email.slice(0, Math.max(at, 0))) && domain.every((label) => DOMAIN_LABEL.test(label))
  return isAddress ? undefined : 'is not an e-mail address'
}

/**
 * Returns what is invalid in a text: it must be one line without control characters (C0 and C1), which terminals
 * interpret.
 */
export function textProblem(text: string): string | undefined {
  return /[\p{Cc}\u2028\u2029]/u.test(text) ? 'must not have control characters' : undefined
}

/** Returns what is invalid in a website. Clients show it as a link. */
export function websiteProblem(website: string): string | undefined {
  if (website === '') return undefined
  const isLink = URL.canParse(website) && /^https?:$/.test(new URL(website).protocol)
  return isLink ? undefined : 'is not an http or https URL'
}
