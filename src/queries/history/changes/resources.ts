/** The kinds of resources whose changes are listed: which of them an event touches, and their state at a moment. */
import type { RepositoryAccess } from '../../../access/repository-access.ts'
import { protectionWires } from '../../../api/branches/branch-protections.ts'
import { issueWires } from '../../../api/issues/issues.ts'
import { labelWire } from '../../../api/labels/labels.ts'
import { milestoneWire } from '../../../api/milestones/milestones.ts'
import { teamNames } from '../../../api/organizations/team-paths.ts'
import { pullWires } from '../../../api/pull-requests/pulls.ts'
import { maySeeDrafts, releaseWires } from '../../../api/releases/releases.ts'
import { repositoryPage } from '../../../api/repositories/repositories.ts'
import { tagProtectionWires } from '../../../api/tags/tag-protections.ts'
import type { DomainEvent, Recorded } from '../../../events/domain-events.ts'
import { repositoryStream } from '../../../events/streams.ts'
import { branchFold, branchId } from '../../../projections/models/branches/branches.fold.ts'
import { issueId } from '../../../projections/models/issues/issue-selection.ts'
import { issueFold } from '../../../projections/models/issues/issues.fold.ts'
import { labelFold } from '../../../projections/models/labels/labels.fold.ts'
import { milestoneFold } from '../../../projections/models/milestones/milestones.fold.ts'
import { pullFold, pullId } from '../../../projections/models/pull-requests/pulls.fold.ts'
import { releaseFold } from '../../../projections/models/releases/releases.fold.ts'
import { tagFold, tagId } from '../../../projections/models/tags/tags.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../../services/services.ts'

/** The repository at a moment, for a requester whose access is the present one. */
export interface ViewedRepository extends RepositoryAccess {
  services: Services
  requester: AccountDocument | null
}

interface Kind {
  /** The ids of the resources of this kind that an event touches, as the API names them. */
  touched(event: Recorded<DomainEvent>, repoId: number): readonly string[]
  /** Returns the resources with these ids by id; those that do not exist are left out. */
  read(viewed: ViewedRepository, ids: readonly string[]): Promise<ReadonlyMap<string, object>>
}

/** Document ids begin with the id of the repository. The API's ids do not. */
const withoutRepository = (documentIds: readonly string[], prefix: string) =>
  documentIds.filter((id) => id.startsWith(prefix)).map((id) => id.slice(prefix.length))

const byId = <R>(resources: readonly R[], idOf: (resource: R) => string | number) =>
  new Map(resources.map((resource) => [`${idOf(resource)}`, resource]))

/** In the order of the answer. */
const KINDS = {
  repository: {
    // Issues and pushes change counters of the repository, which are not compared.
    touched: ({ type, stream }, repoId) =>
      stream === repositoryStream(repoId) && !/^(?:Collaborator|BranchProtection|TagProtection)/.test(type)
        ? [`${repoId}`]
        : [],
    async read({ services, repository, access, requester }) {
      return new Map([[`${repository.id}`, await repositoryPage(services, repository, access, requester)]])
    },
  },
  branch_protection: {
    touched(event) {
      if (event.type === 'BranchProtectionSet') return [event.data.protection.rule]
      return event.type === 'BranchProtectionRemoved' ? [event.data.rule] : []
    },
    async read({ services, repository }, ids) {
      const found = repository.protections.filter(({ rule }) => ids.includes(rule))
      return byId(await protectionWires(services, repository, found), ({ rule_name }) => rule_name)
    },
  },
  tag_protection: {
    touched(event) {
      if (event.type === 'TagProtectionSet') return [`${event.data.protection.id}`]
      return event.type === 'TagProtectionRemoved' ? [`${event.data.id}`] : []
    },
    async read({ services, repository }, ids) {
      const all = (await services.views.tagProtections.get(`${repository.id}`))?.protections ?? []
      const found = all.filter(({ id }) => ids.includes(`${id}`))
      return byId(await tagProtectionWires(services, repository, found), ({ id }) => id)
    },
  },
  collaborator: {
    touched: (event) =>
      event.type === 'CollaboratorSet' || event.type === 'CollaboratorRemoved' ? [event.data.user.login] : [],
    async read({ repository }, ids) {
      const found = Object.values(repository.collaborators).filter(({ login }) => ids.includes(login))
      return byId(found, ({ login }) => login)
    },
  },
  team: {
    touched: (event) =>
      event.type === 'TeamRepositoryAdded' || event.type === 'TeamRepositoryRemoved'
        ? [`${event.data.team.id}`]
        : [],
    async read({ services, repository }, ids) {
      const teamIds = repository.teams.filter((id) => ids.includes(`${id}`))
      const names = await teamNames(services, repository, teamIds)
      return byId(
        teamIds.map((id) => ({ id, name: names.get(id) ?? '' })),
        ({ id }) => id,
      )
    },
  },
  label: {
    touched: (event) => labelFold.touches(event),
    async read({ services, repository }, ids) {
      const found = await services.views.labels.getMany(ids)
      return byId(
        found.map((label) => labelWire(label, repository, services.publicUrl())),
        ({ id }) => id,
      )
    },
  },
  milestone: {
    touched: (event) => milestoneFold.touches(event),
    async read({ services }, ids) {
      return byId((await services.views.milestones.getMany(ids)).map(milestoneWire), ({ id }) => id)
    },
  },
  branch: {
    touched: (event, repoId) => withoutRepository(branchFold.touches(event), branchId(repoId, '')),
    async read({ services, repository }, names) {
      const found = await services.views.branches.getMany(names.map((name) => branchId(repository.id, name)))
      const branches = found.map(({ name, commit: { sha, message } }) => ({ name, sha, message }))
      return byId(branches, ({ name }) => name)
    },
  },
  tag: {
    touched: (event, repoId) => withoutRepository(tagFold.touches(event), tagId(repoId, '')),
    async read({ services, repository }, names) {
      const found = await services.views.tags.getMany(names.map((name) => tagId(repository.id, name)))
      const tags = found.map(({ name, sha }) => ({ name, sha }))
      return byId(tags, ({ name }) => name)
    },
  },
  release: {
    touched: (event) => releaseFold.touches(event),
    async read({ services, repository, access }, ids) {
      const found = await services.views.releases.getMany(ids)
      const visible = found.filter(({ draft }) => !draft || maySeeDrafts(access))
      return byId(await releaseWires(services, repository, visible), ({ id }) => id)
    },
  },
  pull_request: {
    touched: (event, repoId) => withoutRepository(pullFold.touches(event), `${repoId}.`),
    async read({ services, repository, requester }, numbers) {
      const found = await services.views.pulls.getMany(
        numbers.map((number) => pullId(repository.id, Number(number))),
      )
      return byId(await pullWires(services, repository, found, requester), ({ number }) => number)
    },
  },
  issue: {
    // A pull request is an issue, too. It is listed once, as a pull request.
    touched: (event, repoId) =>
      pullFold.touches(event).length > 0 ? [] : withoutRepository(issueFold.touches(event), `${repoId}.`),
    async read({ services, repository, requester }, numbers) {
      const found = await services.views.issues.getMany(
        numbers.map((number) => issueId(repository.id, Number(number))),
      )
      return byId(await issueWires(services, found, requester), ({ number }) => number)
    },
  },
} as const satisfies Record<string, Kind>

export type KindName = keyof typeof KINDS

export const KIND_NAMES = Object.keys(KINDS).filter((name): name is KindName => name in KINDS)

/** The resources that an event touches, of these kinds. */
export function touchedResources(
  event: Recorded<DomainEvent>,
  repoId: number,
  kinds: readonly KindName[],
): { kind: KindName; id: string }[] {
  return kinds.flatMap((kind) => KINDS[kind].touched(event, repoId).map((id) => ({ kind, id })))
}

/** Returns the resources of one kind with these ids, as they are at the current moment. */
export const readResources = (viewed: ViewedRepository, kind: KindName, ids: readonly string[]) =>
  KINDS[kind].read(viewed, ids)
