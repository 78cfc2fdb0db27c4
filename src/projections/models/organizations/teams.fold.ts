/** The teams of organizations. The documents of accounts and repositories name their teams. */
import type { TeamSettings } from '../../../events/catalog/organizations.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface TeamDocument extends TeamSettings {
  id: number
  organizationId: number
}

export const teamFold: Fold<TeamDocument> = foldOf({
  name: 'teams',
  indexes: [{ organizationId: 1, name: 1 }],
  version: 1,
  ids: ({ data }) => ('team' in data ? [`${data.team.id}`] : data.teams.map(String)),
  becomes: {
    TeamCreated: (_, { data: { team, organization, settings } }) => ({
      id: team.id,
      organizationId: organization.id,
      ...settings,
    }),
    TeamDeleted: () => undefined,
    OrganizationDeleted: () => undefined,
  },
  changes: { TeamEdited: (_, { data }) => data.settings },
})
