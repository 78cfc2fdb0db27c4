/** What the ways look like in which events name accounts, issues and teams. */
import type { AccountRef, IssueRef } from './refs.ts'
import { type Checks, object, text, whole } from './shapes.ts'
import type { TeamRef } from './team-events.ts'

export const account = object<AccountRef>({ id: whole, login: text })

/** The fields of an issue or pull request in the data of its events. */
export const issue: Checks<IssueRef> = { repoId: whole, index: whole }

export const team = object<TeamRef>({ id: whole, name: text })
