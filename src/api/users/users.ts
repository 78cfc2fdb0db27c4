/** Users on the wire, and the look-up of the user in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds, ZERO_TIME } from '../../domain/times.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'

export const UserWire = Type.Object(
  {
    id: Type.Integer(),
    login: Type.String(),
    /** The same as `login`, for older clients. */
    username: Type.String(),
    login_name: Type.String(),
    source_id: Type.Integer(),
    full_name: Type.String(),
    email: Type.String(),
    avatar_url: Type.String(),
    html_url: Type.String(),
    language: Type.String(),
    is_admin: Type.Boolean(),
    last_login: Type.String(),
    created: Type.String(),
    restricted: Type.Boolean(),
    active: Type.Boolean(),
    prohibit_login: Type.Boolean(),
    location: Type.String(),
    website: Type.String(),
    description: Type.String(),
    visibility: Type.String(),
    followers_count: Type.Integer(),
    following_count: Type.Integer(),
    starred_repos_count: Type.Integer(),
  },
  { title: 'User' },
)

/** The settings that users change themselves. Those that Mergelog does not have are empty. */
export const UserSettingsWire = Type.Object(
  {
    full_name: Type.String(),
    description: Type.String(),
    location: Type.String(),
    website: Type.String(),
    language: Type.String(),
    theme: Type.String(),
    diff_view_style: Type.String(),
    hide_email: Type.Boolean(),
    hide_activity: Type.Boolean(),
  },
  { title: 'UserSettings' },
)

/** Returns an account as Gitea's `UserSettings`. */
export function userSettingsWire(account: AccountDocument): Static<typeof UserSettingsWire> {
  const { fullName, description, location, website, showEmail } = account
  return {
    full_name: fullName,
    description,
    location,
    website,
    language: '',
    theme: '',
    diff_view_style: '',
    hide_email: !showEmail,
    hide_activity: false,
  }
}

export const EmailWire = Type.Object(
  {
    email: Type.String(),
    verified: Type.Boolean(),
    primary: Type.Boolean(),
    user_id: Type.Integer(),
    username: Type.String(),
  },
  { title: 'Email' },
)

/** Returns the addresses of a user as Gitea's `Email`. Only a site admin or a provider sets the primary one. */
export function emailWires({ id, login, email, emails }: AccountDocument): Static<typeof EmailWire>[] {
  const of = { user_id: id, username: login }
  return [
    ...(email === '' ? [] : [{ email, verified: true, primary: true, ...of }]),
    ...emails.map((other) => ({ email: other, verified: false, primary: false, ...of })),
  ]
}

export const UsernameParams = Type.Object({ username: Type.String() })

/**
 * Returns an account as Gitea's `User`. Only a `viewer` who is the account itself or a site admin sees its hidden e-mail
 * address and whether it is a site admin.
 */
export function userWire(
  account: AccountDocument,
  publicUrl: string,
  viewer: AccountDocument | null = null,
): Static<typeof UserWire> {
  const full = viewer !== null && !account.deleted && (viewer.siteAdmin || viewer.id === account.id)
  return {
    // The id of Gitea's user `Ghost`, which stands for deleted users.
    id: account.deleted ? -1 : account.id,
    login: account.login,
    username: account.login,
    login_name: '',
    source_id: 0,
    full_name: account.fullName,
    email: full && account.email !== '' ? account.email : shownEmail(account, publicUrl),
    avatar_url: '',
    html_url: `${publicUrl}/${account.login}`,
    language: '',
    is_admin: full && account.siteAdmin,
    last_login: ZERO_TIME,
    created: account.deleted ? ZERO_TIME : wholeSeconds(account.createdAt),
    restricted: false,
    active: full ? account.active : true,
    prohibit_login: full && account.prohibitLogin,
    location: account.location,
    website: account.website,
    description: account.description,
    visibility: account.visibility,
    followers_count: 0,
    following_count: 0,
    starred_repos_count: account.stars,
  }
}

/** Returns the address that other users and the account's commits by the server show. */
export function shownEmail(
  account: Pick<AccountDocument, 'login' | 'email' | 'showEmail'>,
  publicUrl: string,
): string {
  return account.showEmail && account.email !== '' ? account.email : noReplyAddress(account.login, publicUrl)
}

/** Returns the users with these addresses, by address: their own or the no-reply address. */
export async function usersByEmail(
  { views, publicUrl }: Pick<Services, 'views' | 'publicUrl'>,
  emails: readonly string[],
): Promise<ReadonlyMap<string, AccountDocument>> {
  const known = [...new Set(emails)].filter((email) => email !== '')
  if (known.length === 0) return new Map()
  const ending = noReplyAddress('', publicUrl())
  const logins = known
    .filter((email) => email.endsWith(ending))
    .map((email) => email.slice(0, -ending.length))
  const [byEmail, byLogin] = await Promise.all([
    views.accounts.find({ kind: 'user', email: { $in: known } }),
    logins.length === 0 ? [] : views.accounts.find({ loginKey: { $in: logins } }),
  ])
  return new Map([
    ...byEmail.map((account) => [account.email, account] as const),
    ...byLogin.map((account) => [`${account.loginKey}${ending}`, account] as const),
  ])
}

/** Returns the address that replaces the account's own address. */
export function noReplyAddress(login: string, publicUrl: string): string {
  if (parsed.publicUrl !== publicUrl) {
    parsed = { publicUrl, host: URL.canParse(publicUrl) ? new URL(publicUrl).hostname : 'localhost' }
  }
  return `${login.toLowerCase()}@noreply.${parsed.host}`
}

/** The last parsed URL: all users of a list have the same one. */
let parsed = { publicUrl: '', host: 'localhost' }

/** Returns users on the wire by their ids, with one look-up. Unknown ids are left out. */
export async function usersById(
  services: Pick<Services, 'views' | 'publicUrl'>,
  ids: readonly (number | undefined)[],
): Promise<ReadonlyMap<number, Static<typeof UserWire>>> {
  const known = ids.filter((id) => id !== undefined)
  const accounts = await services.views.accounts.getMany([...new Set(known.map(String))])
  const publicUrl = services.publicUrl()
  return new Map(accounts.map((account) => [account.id, userWire(account, publicUrl)]))
}

/** Returns the account with that login, ignoring case. @throws Refused (not found) */
export async function accountNamed(services: Services, login: string): Promise<AccountDocument> {
  const account = await services.views.accounts.findOne({ loginKey: login.toLowerCase() })
  if (account === undefined) throw notFoundIn(services.views.accounts, 'user not found')
  return account
}

/** Returns the id of the account with that login; 0, which is never an id, for an unknown login. */
export async function accountIdNamed({ views }: Pick<Services, 'views'>, login: string): Promise<number> {
  return (await views.accounts.findOne({ loginKey: login.toLowerCase() }))?.id ?? 0
}

/** Returns the user with that login; an organization is not a user. @throws Refused (not found) */
export async function userNamed(services: Services, login: string): Promise<AccountDocument> {
  const account = await accountNamed(services, login)
  if (account.kind !== 'user') throw notFoundIn(services.views.accounts, 'user not found')
  return account
}
