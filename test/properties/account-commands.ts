/** Random commands to users and organizations, and to the chain. */
import fc from 'fast-check'
import { hasId, valueAt } from '../../src/commands/execution/id-map.ts'
import {
  decideCreateOrganization,
  decideDeleteOrganization,
  decideEditOrganization,
  decideRemoveMember,
  decideSetMember,
  decideShowMembership,
} from '../../src/commands/organizations/organization.decider.ts'
import {
  decideAddTeamMember,
  decideCreateTeam,
  decideDeleteTeam,
  decideEditTeam,
  decideGainRepository,
  decideLeaveTeams,
  decideLoseRepository,
  decideRemoveTeamMember,
  decideTeamRepository,
} from '../../src/commands/organizations/team.decider.ts'
import { decideEndHiding, decideStartHiding } from '../../src/commands/organizations/visibility.ts'
import * as chain from '../../src/commands/upgrade/chain.decider.ts'
import * as user from '../../src/commands/users/user.decider.ts'
import type { Visibility } from '../../src/events/catalog/organizations.ts'
import type { AccountRef } from '../../src/events/catalog/parts.ts'
import {
  ACME,
  ANN,
  account,
  BOB,
  by,
  command,
  EVE,
  mostly,
  nextId,
  oneOf,
  partial,
  permission,
  REPOSITORIES,
  record,
  repoId,
  text,
  visibility,
} from './values.ts'
import type { World } from './world.ts'

export const createUser = (world: World, who: AccountRef) =>
  world.users.change(who.id, ANN, (state) =>
    user.decideCreateUser(
      state,
      who.id,
      {
        login: who.login,
        email: `${who.login}@example.org`,
        fullName: '',
        siteAdmin: who.id === ANN.id,
      },
      who.id === EVE.id,
    ),
  )

const hasOtherAdmin = (world: World, who: AccountRef) =>
  [ANN, BOB, EVE].some(({ id }) => {
    const state = world.users.now(id)
    return id !== who.id && state.status === 'existing' && user.isActiveAdmin(state.settings)
  })

/** Number of the world's repositories that an account owns. */
const owned = (world: World, who: AccountRef) =>
  REPOSITORIES.map((id) => world.repositories.now(id)).filter(
    (state) => state.status === 'active' && state.owner.id === who.id,
  ).length

/** Number of the world's repositories and organizations of a user, as owner or member. */
function belongings(world: World, who: AccountRef) {
  const organization = world.organizations.now(ACME.id)
  const isMember = organization.status === 'active' && hasId(organization.members, who.id)
  return {
    repositories: owned(world, who),
    organizations: Number(isMember),
    hasOtherAdmin: hasOtherAdmin(world, who),
  }
}

export const createOrganization = (world: World, by: AccountRef, visibility: Visibility) => {
  if (world.users.now(by.id).status !== 'existing') return
  const { id, login } = ACME
  const details = { login, fullName: '', description: '', email: '', location: '', website: '', visibility }
  world.organizations.change(id, by, (state) => decideCreateOrganization(state, id, details, by))
}

export const accountCommands = [
  command('create user', account, createUser),
  command(
    'edit user',
    record({
      who: account,
      by,
      password: fc.boolean(),
      changes: partial({
        siteAdmin: fc.boolean(),
        active: mostly,
        prohibitLogin: fc.boolean(),
        showEmail: fc.boolean(),
        description: text,
      }),
    }),
    (world, { who, by, password, changes }) => {
      const facts = { hasOtherAdmin: hasOtherAdmin(world, who) }
      const changed = password ? { password: { id: `${nextId(world)}`, mustChange: false } } : {}
      world.users.change(who.id, by, (state) => user.decideEditUser(state, changes, { ...facts, ...changed }))
    },
  ),
  command(
    'emails',
    record({ who: account, emails: oneOf([['a'], ['b'], ['a', 'b'], ['A'], []]), adds: fc.boolean() }),
    (world, { who, emails, adds }) => {
      const own = emails.map((name) => `${name}${who.id}@example.org`)
      world.users.change(who.id, who, (state) =>
        (adds ? user.decideAddEmails : user.decideRemoveEmails)(state, own),
      )
    },
  ),
  command('delete user', account, (world, who) => {
    const facts = belongings(world, who)
    world.users.change(who.id, ANN, (state) => user.decideDeleteUser(state, facts))
  }),
  command(
    'identity',
    record({ who: account, subject: oneOf(['s1', 's2']), isFirst: fc.boolean() }),
    (world, { who, subject, isFirst }) => {
      const identity = { issuer: 'https://id.example.org', subject }
      const details = { login: who.login, email: `${who.login}@example.org`, fullName: '', siteAdmin: false }
      world.users.change(who.id, who, (state) =>
        isFirst
          ? user.decideCreateLinkedUser(state, who.id, details, identity)
          : user.decideLinkIdentity(state, identity),
      )
    },
  ),
  command(
    'token',
    record({ who: account, name: oneOf(['t1', 't2']), deletes: fc.boolean() }),
    (world, { who, name, deletes }) =>
      world.users.change(who.id, who, (state) => {
        const token = user.tokenByIdOrName(state, name)
        if (deletes) return user.decideDeleteToken(state, token?.id ?? 0)
        const details = { name, lastEight: '12345678', scopes: ['all'] }
        return user.decideCreateToken(state, { id: nextId(world), ...details })
      }),
  ),
  command('create organization', record({ by, visibility }), (world, given) =>
    createOrganization(world, given.by, given.visibility),
  ),
  command(
    'edit organization',
    record({ by, changes: partial({ visibility, description: text }) }),
    (world, { by, changes }) => {
      const actor = { id: by.id, siteAdmin: false }
      world.organizations.change(ACME.id, by, (state) => decideEditOrganization(state, actor, changes))
    },
  ),
  command(
    'hide organization',
    record({ by, visibility, ends: mostly }),
    (world, { by, visibility, ends }) => {
      const actor = { id: by.id, siteAdmin: false }
      world.organizations.change(ACME.id, by, (state) => decideStartHiding(state, actor, visibility))
      const state = world.organizations.now(ACME.id)
      const isAdmin = state.status === 'active' && valueAt(state.members, by.id) === 'admin'
      // A process may end it, too; here the others have to be admins.
      if (ends && isAdmin) world.organizations.change(ACME.id, by, decideEndHiding)
    },
  ),
  command('delete organization', record({ by, who: account }), (world, { by, who }) => {
    const actor = { id: by.id, siteAdmin: false }
    if (world.users.now(who.id).status === 'existing') {
      world.organizations.change(ACME.id, by, (state) => decideSetMember(state, actor, who, 'admin'))
    }
    world.organizations.change(ACME.id, by, (state) =>
      decideDeleteOrganization(state, actor, owned(world, ACME), 1),
    )
  }),
  command('member', record({ by, who: account, may: fc.option(permission, { freq: 2 }) }), (world, given) => {
    const { by, who, may } = given
    if (world.users.now(who.id).status !== 'existing') return
    const actor = { id: by.id, siteAdmin: false }
    world.organizations.change(ACME.id, by, (state) =>
      may === null ? decideRemoveMember(state, actor, who) : decideSetMember(state, actor, who, may),
    )
  }),
  command('public member', record({ by, who: account, isPublic: mostly }), (world, { by, who, isPublic }) => {
    const actor = { id: by.id, siteAdmin: false }
    world.organizations.change(ACME.id, by, (state) => decideShowMembership(state, actor, who, isPublic))
  }),
  command(
    'team',
    record({
      by,
      who: account,
      may: permission,
      team: oneOf([101, 102]),
      repoId,
      what: oneOf(['edit', 'edit', 'delete', 'add', 'remove', 'give', 'take', 'leave', 'gain', 'lose']),
    }),
    (world, { by, who, may, team, repoId: repository, what }) => {
      if (world.users.now(who.id).status !== 'existing') return
      const actor = { id: by.id, siteAdmin: false }
      world.organizations.change(ACME.id, by, (state) => {
        const rights = { permission: may, allRepositories: team === 101, canCreateRepositories: false }
        const settings = { name: `team${team}`, description: '', units: [], ...rights }
        const isThere = state.status === 'active' && hasId(state.teams, team)
        return isThere ? [] : decideCreateTeam(state, actor, team, settings)
      })
      // Only existing grants are removed.
      if (what === 'remove') {
        world.organizations.change(ACME.id, by, (state) => decideAddTeamMember(state, actor, team, who))
      }
      if (what === 'take' || what === 'lose') {
        world.organizations.change(ACME.id, by, (state) =>
          decideTeamRepository(state, actor, team, repository, true),
        )
      }
      world.organizations.change(ACME.id, by, (state) => {
        switch (what) {
          case 'edit':
            return decideEditTeam(state, actor, team, { permission: may, description: `${who.id}` })
          case 'delete':
            return decideDeleteTeam(state, actor, team)
          case 'add':
            return decideAddTeamMember(state, actor, team, who)
          case 'remove':
            return decideRemoveTeamMember(state, actor, team, who)
          case 'leave':
            return by.id === who.id ? decideLeaveTeams(state, who) : []
          case 'gain':
          case 'lose': {
            // The process of transfers has no actor; here the others have to be admins.
            if (state.status !== 'active' || valueAt(state.members, by.id) !== 'admin') return []
            const isGain = what === 'gain'
            return isGain
              ? decideGainRepository(state, repository, [team])
              : decideLoseRepository(state, repository)
          }
          default:
            return decideTeamRepository(state, actor, team, repository, what === 'give')
        }
      })
    },
  ),
]

const height = oneOf(['0', '10', '11', '9'])
const planName = oneOf(['v1', 'v2', ''])
const moduleVersion = record({ name: oneOf(['bank', 'auth', '']), version: oneOf(['1', '2']) })

const onChain = <Given>(
  name: string,
  given: fc.Arbitrary<Given>,
  decide: (state: chain.ChainState, given: Given) => ReturnType<typeof chain.decideCancelPlan>,
) =>
  command(name, given, (world, values) => world.chain.change('chain', ANN, (state) => decide(state, values)))

export const chainCommands = [
  onChain('schedule plan', record({ name: planName, height, info: text }), chain.decideSchedulePlan),
  onChain('cancel plan', fc.constant(null), chain.decideCancelPlan),
  onChain('apply plan', fc.option(height), (state, at) => chain.decideApplyPlan(state, at ?? undefined)),
  onChain(
    'module versions',
    fc.array(moduleVersion, { minLength: 1, maxLength: 3 }),
    chain.decideSetModuleVersions,
  ),
  onChain('authority', planName, chain.decideChangeAuthority),
  onChain('consensus state', record({ height, state: oneOf(['AA==', 'AQ==']) }), (state, given) =>
    chain.decideStoreConsensusState(state, given.height, given.state),
  ),
]
