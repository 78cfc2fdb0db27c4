import t from 'tap'
import { changesOf, type Observed } from '../../src/cli/upgrade-follow/follow-changes.ts'
import { chainDecider } from '../../src/commands/upgrade/chain.ts'
import type { UpgradeEvent } from '../../src/events/upgrade-events.ts'

const v2 = { name: 'v2', height: '120', info: '' }
const v3 = { name: 'v3', height: '200', info: 'https://example.org' }
const scheduled = (plan: typeof v2): UpgradeEvent => ({ type: 'PlanScheduled', data: { plan } })
const appliedV2: UpgradeEvent = { type: 'PlanApplied', data: { name: 'v2', height: '120' } }

function given(...events: UpgradeEvent[]) {
  const state = events.reduce(chainDecider.evolve, chainDecider.initialState)
  return (seen: Observed) => changesOf(state, seen)
}

t.test('a chain that is where the log is changes nothing', async (t) => {
  const nothing = { events: [], refused: [] }
  t.same(given()({ plan: null }), nothing)
  t.same(given(scheduled(v2))({ plan: v2 }), nothing)
  const modules = [{ name: 'bank', version: '4' }]
  const all = given(
    { type: 'ModuleVersionsSet', data: { moduleVersions: modules } },
    { type: 'AuthorityChanged', data: { address: 'a' } },
  )
  t.same(all({ plan: null, moduleVersions: modules, authority: 'a' }), nothing)
  t.same(all({ plan: null }), nothing, 'nor does one that tells of neither')
})

t.test(
  'a plan that the chain has and the log does not is scheduled, also in the place of another',
  async (t) => {
    t.same(given()({ plan: v2 }).events, [scheduled(v2)])
    const moved = { ...v2, height: '130' }
    t.same(given(scheduled(v2))({ plan: moved }).events, [scheduled(moved)])
    const replaced = given(scheduled(v2))({ plan: v3, applied: { name: 'v2', height: '0' } })
    t.same(replaced.events, [scheduled(v3)])
  },
)

t.test('a plan that is gone from the chain was applied where the chain says, or else canceled', async (t) => {
  const gone = given(scheduled(v2))
  t.same(gone({ plan: null, applied: { name: 'v2', height: '120' } }).events, [appliedV2])
  t.same(gone({ plan: null, applied: { name: 'v2', height: '0' } }).events, [
    { type: 'PlanCanceled', data: { name: 'v2' } },
  ])
  t.same(
    gone({ plan: v3, applied: { name: 'v2', height: '120' } }).events,
    [appliedV2, scheduled(v3)],
    'and the next one is scheduled after it',
  )
})

t.test('a plan that was applied before the height that the log knows was moved there first', async (t) => {
  const seen = { plan: null, applied: { name: 'v2', height: '99' } }
  t.same(given(scheduled(v2))(seen).events, [
    scheduled({ ...v2, height: '99' }),
    { type: 'PlanApplied', data: { name: 'v2', height: '99' } },
  ])
})

t.test('what became of another plan than the one scheduled now is not believed of this one', async (t) => {
  const asked = { plan: null, applied: { name: 'v1', height: '7' } }
  t.same(given(scheduled(v2))(asked), { events: [], refused: [] })
  t.same(given(scheduled(v2))({ plan: null }), { events: [], refused: [] })
})

t.test('what our rules refuse is said, and does not keep the rest from being recorded', async (t) => {
  const modules = [{ name: 'bank', version: '4' }]
  const again = given(scheduled(v2), appliedV2)({ plan: v2, moduleVersions: modules, authority: 'a' })
  t.match(again.refused, [/^current_plan: .*"v2" was applied at height 120/])
  t.same(again.events, [
    { type: 'ModuleVersionsSet', data: { moduleVersions: modules } },
    { type: 'AuthorityChanged', data: { address: 'a' } },
  ])
  const odd = given()({ plan: { ...v2, height: '0' }, moduleVersions: [...modules, ...modules] })
  t.match(odd, { events: [], refused: [/^current_plan: height/, /^module_versions: .*twice/] })
})

t.test('a plan is canceled also when what took its place on the chain is refused', async (t) => {
  const seen = { plan: v2, applied: { name: 'v3', height: '0' } }
  const { events, refused } = given(scheduled(v2), appliedV2, scheduled(v3))(seen)
  t.same(events, [{ type: 'PlanCanceled', data: { name: 'v3' } }])
  t.equal(refused.length, 1)
})
