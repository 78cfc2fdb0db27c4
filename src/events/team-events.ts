/** The events about the teams of an organization, in its stream: `org-<id>`. */
import type { AccountRef } from './refs.ts'

/** A team as events name it. The id identifies it: no team, user or organization has the same one. */
export interface TeamRef {
  id: number
  name: string
}

/** What a team gives its members. */
export interface TeamGrant {
  permission: 'read' | 'write' | 'admin'
  /** Whether it gives the permission in all repositories of the organization, or only in those that were added. */
  allRepositories: boolean
  canCreateRepositories: boolean
}

export interface TeamSettings extends TeamGrant {
  name: string
  description: string
  /** Gitea's names of the parts of repositories, as the client named them. All have the same permission here. */
  units: string[]
}

/** What all events of a team have. */
interface OfTeam {
  organization: AccountRef
  team: TeamRef
}

type Of<Type extends string, Data> = { type: Type; data: OfTeam & Data }

export type TeamEvent =
  | Of<'TeamCreated', { settings: TeamSettings }>
  /** The complete new settings, and the ids of the members, if their rights change. */
  | Of<'TeamEdited', { settings: TeamSettings; members: number[] }>
  | Of<'TeamDeleted', { members: number[] }>
  | Of<'TeamMemberAdded', { user: AccountRef; grant: TeamGrant }>
  | Of<'TeamMemberRemoved', { user: AccountRef }>
  | Of<'TeamRepositoryAdded', { repoId: number }>
  | Of<'TeamRepositoryRemoved', { repoId: number }>
