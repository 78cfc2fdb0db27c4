import t from 'tap'
import {
  decideCreateOrganization,
  decideDeleteOrganization,
  decideRemoveMember,
  decideSetMember,
  decideShowMembership,
  type OrganizationDetails,
  organizationDecider,
} from '../../../src/commands/organizations/organization.decider.ts'
import { decideEditTeam } from '../../../src/commands/organizations/team.decider.ts'
import type {
  OrganizationEvent,
  Permission,
  TeamEvent,
  TeamSettings,
} from '../../../src/events/catalog/organizations.ts'
import { specify } from '../../specification.ts'

const details: OrganizationDetails = {
  login: 'acme',
  fullName: 'Acme',
  description: '',
  email: '',
  location: '',
  website: 'https://acme.example.org',
  visibility: 'public',
}
const organization = { id: 9, login: 'acme' }
const alice = { id: 1, login: 'alice' }
const bob = { id: 2, login: 'bob' }
const asAlice = { id: 1, siteAdmin: false }
const asBob = { id: 2, siteAdmin: false }
const asSiteAdmin = { id: 99, siteAdmin: true }

const created: OrganizationEvent = { type: 'OrganizationCreated', data: { id: 9, ...details } }
const set = (user: typeof alice, permission: Permission): OrganizationEvent => ({
  type: 'MemberSet',
  data: { organization, user, permission },
})
const removed = (user: typeof alice): OrganizationEvent => ({
  type: 'MemberRemoved',
  data: { organization, user },
})

t.test('the creator of an organization is its admin', async (t) => {
  const { given } = specify(t, organizationDecider)
  given()
    .when((state) => decideCreateOrganization(state, 9, details, alice))
    .thenEvents(created, set(alice, 'admin'))
  given(created)
    .when((state) => decideCreateOrganization(state, 9, details, alice))
    .thenRefused('conflict')
})

t.test(
  'an organization needs a valid name; its e-mail address and its website must be valid when given',
  async (t) => {
    const { given } = specify(t, organizationDecider)
    const bad = [{ login: 'admin' }, { login: '../x' }, { email: 'x' }, { website: 'javascript:alert(1)' }]
    for (const part of bad) {
      given()
        .when((state) => decideCreateOrganization(state, 9, { ...details, ...part }, alice))
        .thenRefused('unprocessable')
    }
  },
)

t.test('admins of the organization and site admins set members; other users do not', async (t) => {
  const { given } = specify(t, organizationDecider)
  given(created, set(alice, 'admin'))
    .when((state) => decideSetMember(state, asAlice, bob, 'read'))
    .thenEvents(set(bob, 'read'))
  given(created, set(alice, 'admin'))
    .when((state) => decideSetMember(state, asSiteAdmin, bob, 'read'))
    .thenEvents(set(bob, 'read'))
  given(created, set(alice, 'admin'), set(bob, 'write'))
    .when((state) => decideSetMember(state, asBob, bob, 'admin'))
    .thenRefused('forbidden')
  given()
    .when((state) => decideSetMember(state, asSiteAdmin, bob, 'read'))
    .thenRefused('notFound')
})

t.test('setting what is set already changes nothing', async (t) => {
  const { given } = specify(t, organizationDecider)
  given(created, set(alice, 'admin'), set(bob, 'read'))
    .when((state) => decideSetMember(state, asAlice, bob, 'read'))
    .thenEvents()
  given(created, set(alice, 'admin'))
    .when((state) => decideSetMember(state, asAlice, alice, 'admin'))
    .thenEvents()
})

t.test('the last admin cannot be removed or demoted', async (t) => {
  const { given } = specify(t, organizationDecider)
  for (const actor of [asAlice, asSiteAdmin]) {
    given(created, set(alice, 'admin'), set(bob, 'write'))
      .when((state) => decideSetMember(state, actor, alice, 'write'))
      .thenRefused('unprocessable')
    given(created, set(alice, 'admin'), set(bob, 'write'))
      .when((state) => decideRemoveMember(state, actor, alice))
      .thenRefused('unprocessable')
  }
  given(created, set(alice, 'admin'), set(bob, 'admin'))
    .when((state) => decideRemoveMember(state, asAlice, alice))
    .thenEvents(removed(alice))
})

t.test(
  'a member may leave or be removed by an admin; others may not remove members, nor may strangers',
  async (t) => {
    const { given } = specify(t, organizationDecider)
    const members = [created, set(alice, 'admin'), set(bob, 'write')]
    given(...members)
      .when((state) => decideRemoveMember(state, asBob, bob))
      .thenEvents(removed(bob))
    given(...members)
      .when((state) => decideRemoveMember(state, asAlice, bob))
      .thenEvents(removed(bob))
    given(...members)
      .when((state) => decideRemoveMember(state, { id: 3, siteAdmin: false }, bob))
      .thenRefused('forbidden')
    given(...members, removed(bob))
      .when((state) => decideRemoveMember(state, asAlice, bob))
      .thenRefused('notFound')
  },
)

t.test(
  'an organization without repositories is deleted by its admins, and cannot be changed after that',
  async (t) => {
    const { given } = specify(t, organizationDecider)
    const deleted: OrganizationEvent = {
      type: 'OrganizationDeleted',
      data: { organization, members: [1, 2], teams: [] },
    }
    const whole = [created, set(alice, 'admin'), set(bob, 'write')] as const
    for (const actor of [asAlice, asSiteAdmin]) {
      given(...whole)
        .when((state) => decideDeleteOrganization(state, actor, 0))
        .thenEvents(deleted)
      given(...whole)
        .when((state) => decideDeleteOrganization(state, actor, 1))
        .thenRefused('unprocessable')
    }
    given(...whole)
      .when((state) => decideDeleteOrganization(state, asAlice, 0, 1))
      .thenEvents(
        { type: 'MembersReleased', data: { organization, members: [1] } },
        { type: 'OrganizationDeleted', data: { organization, members: [2], teams: [] } },
      )
    given(...whole)
      .when((state) => decideDeleteOrganization(state, asBob, 0))
      .thenRefused('forbidden')
    given(...whole, deleted)
      .when((state) => decideDeleteOrganization(state, asSiteAdmin, 0))
      .thenRefused('notFound')
    given(...whole, deleted)
      .when((state) => decideSetMember(state, asSiteAdmin, bob, 'read'))
      .thenRefused('notFound')
  },
)

t.test('the members of a team are recorded only when their permissions change', async (t) => {
  const { given } = specify(t, organizationDecider)
  const settings: TeamSettings = {
    name: 'crew',
    description: '',
    units: [],
    permission: 'read',
    allRepositories: false,
    canCreateRepositories: false,
  }
  const team = { id: 20, name: 'crew' }
  const made: TeamEvent = { type: 'TeamCreated', data: { organization, team, settings } }
  const added: TeamEvent = {
    type: 'TeamMemberAdded',
    data: { organization, team, user: bob, grant: { ...settings } },
  }
  const edited = (changes: Partial<TeamSettings>, members: number[]): TeamEvent => ({
    type: 'TeamEdited',
    data: {
      organization,
      team: { id: 20, name: changes.name ?? 'crew' },
      settings: { ...settings, ...changes },
      members,
    },
  })
  const before = [created, set(alice, 'admin'), made, added] as const
  for (const changes of [{ name: 'squad' }, { description: 'Ours' }]) {
    given(...before)
      .when((state) => decideEditTeam(state, asAlice, 20, changes))
      .thenEvents(edited(changes, []))
  }
  for (const changes of [
    { permission: 'write' },
    { allRepositories: true },
    { canCreateRepositories: true },
  ] as const) {
    given(...before)
      .when((state) => decideEditTeam(state, asAlice, 20, changes))
      .thenEvents(edited(changes, [2]))
  }
})

t.test(
  'a member, or an admin of the organization, shows a membership; a user who joins again is a private member',
  async (t) => {
    const { given } = specify(t, organizationDecider)
    const shown = (isPublic: boolean): OrganizationEvent => ({
      type: 'MembershipShown',
      data: { organization, user: bob, isPublic },
    })
    const team = { id: 20, name: 'readers' }
    const grant = { permission: 'read', allRepositories: false, canCreateRepositories: false } as const
    const settings = { ...grant, name: 'readers', description: '', units: [] }
    const inTeam: TeamEvent = { type: 'TeamMemberAdded', data: { organization, team, user: bob, grant } }
    const withTeam: (OrganizationEvent | TeamEvent)[] = [
      created,
      set(alice, 'admin'),
      { type: 'TeamCreated', data: { organization, team, settings } },
    ]
    for (const isIn of [set(bob, 'read'), inTeam]) {
      given(...withTeam, isIn)
        .when((state) => decideShowMembership(state, asBob, bob, true))
        .thenEvents(shown(true))
      for (const other of [asAlice, asSiteAdmin]) {
        given(...withTeam, isIn)
          .when((state) => decideShowMembership(state, other, bob, true))
          .thenRefused('forbidden')
      }
    }
    given(...withTeam, set(bob, 'read'))
      .when((state) => decideShowMembership(state, asBob, alice, true))
      .thenRefused('forbidden')
    given(...withTeam)
      .when((state) => decideShowMembership(state, asBob, bob, true))
      .thenRefused('forbidden')
    given(...withTeam, set(bob, 'read'), shown(true))
      .when((state) => decideShowMembership(state, asBob, bob, true))
      .thenEvents()
    given(...withTeam, set(bob, 'read'), shown(true), inTeam, removed(bob))
      .when((state) => decideShowMembership(state, asBob, bob, false))
      .thenEvents(shown(false))
    for (const back of [set(bob, 'read'), inTeam]) {
      given(...withTeam, set(bob, 'read'), shown(true), removed(bob), back)
        .when((state) => decideShowMembership(state, asBob, bob, false))
        .thenEvents()
    }
  },
)
