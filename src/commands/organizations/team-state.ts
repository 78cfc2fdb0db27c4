/** The teams in the state of an organization. Pure. */
import type { AccountRef } from '../../events/domain-events.ts'
import type { EventOf } from '../../events/handlers.ts'
import type { TeamEvent, TeamSettings } from '../../events/team-events.ts'

export interface TeamState {
  settings: TeamSettings
  members: ReadonlySet<number>
  repositories: ReadonlySet<number>
}

export type Teams = ReadonlyMap<number, TeamState>

const withOne = (set: ReadonlySet<number>, id: number) => new Set(set).add(id)

function withoutOne(set: ReadonlySet<number>, id: number): ReadonlySet<number> {
  const others = new Set(set)
  others.delete(id)
  return others
}

/** The teams after a change of one; without a change they stay as they are when there is no such team. */
function changed(
  teams: Teams,
  id: number,
  change: (team: TeamState) => Partial<TeamState>,
): { teams: Teams } {
  const team = teams.get(id)
  return team === undefined ? { teams } : { teams: new Map(teams).set(id, { ...team, ...change(team) }) }
}

interface HasTeams {
  teams: Teams
}

/** How each event of a team changes the teams of its organization. */
export const teamChanges = {
  TeamCreated: ({ teams }: HasTeams, { data }: EventOf<'TeamCreated'>) => ({
    teams: new Map(teams).set(data.team.id, {
      settings: data.settings,
      members: new Set<number>(),
      repositories: new Set<number>(),
    }),
  }),
  TeamEdited: ({ teams }: HasTeams, { data }: EventOf<'TeamEdited'>) =>
    changed(teams, data.team.id, () => ({ settings: data.settings })),
  TeamDeleted({ teams }: HasTeams, { data }: EventOf<'TeamDeleted'>) {
    const others = new Map(teams)
    others.delete(data.team.id)
    return { teams: others }
  },
  TeamMemberAdded: ({ teams }: HasTeams, { data }: EventOf<'TeamMemberAdded'>) =>
    changed(teams, data.team.id, ({ members }) => ({ members: withOne(members, data.user.id) })),
  TeamMemberRemoved: ({ teams }: HasTeams, { data }: EventOf<'TeamMemberRemoved'>) =>
    changed(teams, data.team.id, ({ members }) => ({ members: withoutOne(members, data.user.id) })),
  TeamRepositoryAdded: ({ teams }: HasTeams, { data }: EventOf<'TeamRepositoryAdded'>) =>
    changed(teams, data.team.id, ({ repositories }) => ({
      repositories: withOne(repositories, data.repoId),
    })),
  TeamRepositoryRemoved: ({ teams }: HasTeams, { data }: EventOf<'TeamRepositoryRemoved'>) =>
    changed(teams, data.team.id, ({ repositories }) => ({
      repositories: withoutOne(repositories, data.repoId),
    })),
}

/** The events by which a user leaves all teams of an organization. */
export function leftTeams(
  { organization, teams }: { organization: AccountRef; teams: Teams },
  user: AccountRef,
): TeamEvent[] {
  return [...teams].flatMap(([id, { settings, members }]): TeamEvent[] => {
    if (!members.has(user.id)) return []
    return [{ type: 'TeamMemberRemoved', data: { organization, team: { id, name: settings.name }, user } }]
  })
}
