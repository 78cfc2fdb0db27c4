import fc from 'fast-check'
import t from 'tap'
import {
  entriesOf,
  hasId,
  type IdMap,
  idsOf,
  noIds,
  valueAt,
  withId,
  withoutId,
} from '../../../src/commands/execution/id-map.ts'
import { organizationDecider } from '../../../src/commands/organizations/organization.decider.ts'
import { userDecider } from '../../../src/commands/users/user.decider.ts'

const anId = fc.oneof(fc.nat(40), fc.nat(70_000), fc.maxSafeNat())

t.test('a map by ids behaves like a Map, and earlier versions do not change', async () => {
  const steps = fc.array(fc.record({ id: anId, value: fc.option(fc.nat(9)) }), { maxLength: 60 })
  fc.assert(
    fc.property(steps, anId, (changes, other) => {
      let map: IdMap<number> = noIds()
      const known = new Map<number, number>()
      const versions: { map: IdMap<number>; entries: [number, number][] }[] = []
      for (const { id, value } of changes) {
        map = value === null ? withoutId(map, id) : withId(map, id, value)
        if (value === null) known.delete(id)
        else known.set(id, value)
        versions.push({ map, entries: [...known].sort(([a], [b]) => a - b) })
      }
      for (const { map, entries } of versions) {
        t.strictSame([...entriesOf(map)], entries)
        t.equal(map.size, entries.length)
      }
      t.strictSame(
        idsOf(map),
        [...known.keys()].sort((a, b) => a - b),
      )
      t.equal(valueAt(map, other), known.get(other))
      t.equal(hasId(map, -1), false)
    }),
    { seed: 5, numRuns: 100 },
  )
})

/** Counts the values in the objects and arrays of `after` that `before` lacks. */
function copied(before: unknown, after: unknown): number {
  const known = new Set<unknown>()
  const note = (value: unknown) => {
    if (typeof value !== 'object' || value === null) return
    known.add(value)
    for (const part of Object.values(value)) note(part)
  }
  note(before)
  const countIn = (value: unknown): number => {
    if (typeof value !== 'object' || value === null || known.has(value)) return 0
    const parts = Object.values(value)
    return parts.reduce<number>((sum, part) => sum + countIn(part), parts.length)
  }
  return countIn(after)
}

t.test(
  'an event of a large organization, or of a user with many tokens, copies little of the folded state',
  async (t) => {
    const many = 20_000
    const organization = { id: 1, login: 'big' }
    const team = { id: 2, name: 'team' }
    const grant = { permission: 'write', allRepositories: false, canCreateRepositories: false } as const
    const settings = { name: 'team', description: '', units: [], ...grant }
    const details = { login: 'big', fullName: '', description: '', email: '', location: '', website: '' }
    let state = organizationDecider.initialState
    const happens = (event: Parameters<typeof organizationDecider.evolve>[1]) => {
      const before = state
      state = organizationDecider.evolve(state, event)
      return before
    }
    happens({ type: 'OrganizationCreated', data: { id: 1, ...details, visibility: 'public' } })
    happens({ type: 'TeamCreated', data: { organization, team, settings } })
    for (let id = 10; id < many; id++) {
      const user = { id, login: `user${id}` }
      happens({ type: 'MemberSet', data: { organization, user, permission: 'read' } })
      happens({ type: 'TeamMemberAdded', data: { organization, team, user, grant } })
      happens({ type: 'TeamRepositoryAdded', data: { organization, team, repoId: id } })
    }
    const user = { id: many, login: 'last' }
    for (const event of [
      { type: 'MemberSet', data: { organization, user, permission: 'read' } },
      { type: 'TeamMemberAdded', data: { organization, team, user, grant } },
      { type: 'TeamRepositoryAdded', data: { organization, team, repoId: many } },
      { type: 'TeamRepositoryRemoved', data: { organization, team, repoId: 11 } },
      { type: 'MemberRemoved', data: { organization, user } },
    ] as const) {
      const before = happens(event)
      const size = copied(before, state)
      t.ok(size > 0 && size < 200, `${event.type} copies ${size} values`)
    }

    let tokens = userDecider.initialState
    const data = { id: 1, login: 'ann', email: 'a@x', fullName: '', siteAdmin: false }
    tokens = userDecider.evolve(tokens, { type: 'UserCreated', data })
    let before = tokens
    for (let tokenId = 1; tokenId <= many; tokenId++) {
      before = tokens
      const token = { user, tokenId, name: `${tokenId}`, lastEight: '', scopes: [] }
      tokens = userDecider.evolve(tokens, { type: 'TokenCreated', data: token })
    }
    t.ok(copied(before, tokens) < 200)
  },
)
