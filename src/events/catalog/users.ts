/** `user-<id>` */
import { type Static, Type } from 'typebox'
import { AccountRef, Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'

const userSettings = {
  email: Text,
  fullName: Text,
  description: Text,
  location: Text,
  website: Text,
  /** Whether the e-mail address is public, also in commits by the server. Otherwise a substitute is shown. */
  showEmail: Flag,
  siteAdmin: Flag,
  /** False: the account is disabled. It cannot sign in and has no permissions. */
  active: Flag,
  /** True: like an inactive account. Gitea has both fields. */
  prohibitLogin: Flag,
  /** Until then, the account can only change its password. */
  mustChangePassword: Flag,
}
/** The settings of a user that can be edited. */
const UserSettings = Type.Object(userSettings)
export type UserSettings = Static<typeof UserSettings>

export const userEvents = {
  UserCreated: Type.Object({ id: Whole, login: Text, email: Text, fullName: Text, siteAdmin: Flag }),
  UserEdited: Type.Object({ user: AccountRef, changes: Changes(userSettings) }),
  /** The user's password hash now has this id in the secret store. The id is not secret. */
  PasswordChanged: Type.Object({ user: AccountRef, passwordId: Text, mustChangePassword: Flag }),
  /** This identity at an OpenID Connect provider now signs in to the account. */
  IdentityLinked: Type.Object({ user: AccountRef, issuer: Text, subject: Text }),
  /** Another address of the user: unique, and unverified. */
  EmailAdded: Type.Object({ user: AccountRef, email: Text }),
  EmailRemoved: Type.Object({ user: AccountRef, email: Text }),
  /** The account is deleted. Its contributions stay. */
  UserDeleted: Type.Object({ user: AccountRef }),
  TokenCreated: Type.Object({
    user: AccountRef,
    tokenId: Whole,
    name: Text,
    lastEight: Text,
    scopes: Type.Array(Text),
  }),
  TokenDeleted: Type.Object({ user: AccountRef, tokenId: Whole, name: Text }),
}
export type UserEvent = EventsOf<typeof userEvents>
