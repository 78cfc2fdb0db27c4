/** What the data of the events about teams looks like. */
import { account, team } from './ref-shapes.ts'
import { type Check, type Checks, flag, list, object, text, whole, word } from './shapes.ts'
import type { TeamEvent, TeamGrant, TeamSettings } from './team-events.ts'

type DataOf<T extends TeamEvent['type']> = Extract<TeamEvent, { type: T }>['data']

const permission: Check<TeamGrant['permission']> = word('read', 'write', 'admin')
const grant: Checks<TeamGrant> = { permission, allRepositories: flag, canCreateRepositories: flag }
const settings = object<TeamSettings>({ ...grant, name: text, description: text, units: list(text) })
const ofTeam = { organization: account, team }

export const teamShapes: { readonly [T in TeamEvent['type']]: Checks<DataOf<T>> } = {
  TeamCreated: { ...ofTeam, settings },
  TeamEdited: { ...ofTeam, settings, members: list(whole) },
  TeamDeleted: { ...ofTeam, members: list(whole) },
  TeamMemberAdded: { ...ofTeam, user: account, grant: object<TeamGrant>(grant) },
  TeamMemberRemoved: { ...ofTeam, user: account },
  TeamRepositoryAdded: { ...ofTeam, repoId: whole },
  TeamRepositoryRemoved: { ...ofTeam, repoId: whole },
}
