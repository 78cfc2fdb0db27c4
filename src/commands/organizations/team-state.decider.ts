/** The teams in the state of an organization. Pure. */

import type { TeamEvent, TeamSettings } from '../../events/catalog/organizations.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { EventOf } from '../../events/handlers.ts'
import { entriesOf, hasId, type IdMap, noIds, valueAt, withId, withoutId } from '../execution/id-map.ts'

export interface TeamState {
  settings: TeamSettings
  members: IdMap<true>
  repositories: IdMap<true>
}

export type Teams = IdMap<TeamState>

/** Returns the teams with one changed; unchanged when it does not exist. */
function changed(
  teams: Teams,
  id: number,
  change: (team: TeamState) => Partial<TeamState>,
): { teams: Teams } {
  const team = valueAt(teams, id)
  return team === undefined ? { teams } : { teams: withId(teams, id, { ...team, ...change(team) }) }
}

interface HasTeams {
  teams: Teams
}

/** Folds of team events into the state of the organization. */
export const teamChanges = {
  TeamCreated: ({ teams }: HasTeams, { data }: EventOf<'TeamCreated'>) => ({
    teams: withId(teams, data.team.id, {
      settings: data.settings,
      members: noIds<true>(),
      repositories: noIds<true>(),
    }),
  }),
  TeamEdited: ({ teams }: HasTeams, { data }: EventOf<'TeamEdited'>) =>
    changed(teams, data.team.id, () => ({ settings: data.settings })),
  TeamDeleted: ({ teams }: HasTeams, { data }: EventOf<'TeamDeleted'>) => ({
    teams: withoutId(teams, data.team.id),
  }),
  TeamMemberAdded: ({ teams }: HasTeams, { data }: EventOf<'TeamMemberAdded'>) =>
    changed(teams, data.team.id, ({ members }) => ({ members: withId(members, data.user.id, true) })),
  TeamMemberRemoved: ({ teams }: HasTeams, { data }: EventOf<'TeamMemberRemoved'>) =>
    changed(teams, data.team.id, ({ members }) => ({ members: withoutId(members, data.user.id) })),
  TeamRepositoryAdded: ({ teams }: HasTeams, { data }: EventOf<'TeamRepositoryAdded'>) =>
    changed(teams, data.team.id, ({ repositories }) => ({
      repositories: withId(repositories, data.repoId, true),
    })),
  TeamRepositoryRemoved: ({ teams }: HasTeams, { data }: EventOf<'TeamRepositoryRemoved'>) =>
    changed(teams, data.team.id, ({ repositories }) => ({
      repositories: withoutId(repositories, data.repoId),
    })),
}

/** Returns the events that remove a user from all teams of an organization. */
export function teamRemovals(
  { organization, teams }: { organization: AccountRef; teams: Teams },
  user: AccountRef,
): TeamEvent[] {
  return [...entriesOf(teams)].flatMap(([id, { settings, members }]): TeamEvent[] => {
    if (!hasId(members, user.id)) return []
    return [{ type: 'TeamMemberRemoved', data: { organization, team: { id, name: settings.name }, user } }]
  })
}
