import t from 'tap'
import { changesOf, type Observed } from '../../src/cli/upgrade-follow/follow-changes.ts'
import { chainDecider } from '../../src/commands/upgrade/chain.decider.ts'
import type { UpgradeEvent } from '../../src/events/catalog/upgrade.ts'

const v2 = { name: 'v2', height: '120', info: '' }
const v3 = { name: 'v3', height: '200', info: 'https://example.org' }
const scheduled = (plan: typeof v2): UpgradeEvent => ({ type: 'PlanScheduled', data: { plan } })
const appliedV2: UpgradeEvent = { type: 'PlanApplied', data: { name: 'v2', height: '120' } }

function given(...events: UpgradeEvent[]) {
  const state = events.reduce(chainDecider.evolve, chainDecider.initialState)
  return (seen: Observed) => changesOf(state, seen)
}

t.test('no events when the log is up to date with the chain', async (t) => {
  const nothing = { events: [], refused: [] }
  t.same(given()({ plan: null }), nothing)
  t.same(given(scheduled(v2))({ plan: v2 }), nothing)
  const modules = [{ name: 'bank', version: '4' }]
  const all = given(
    { type: 'ModuleVersionsSet', data: { moduleVersions: modules } },
    { type: 'AuthorityChanged', data: { address: 'a' } },
  )
  t.same(all({ plan: null, moduleVersions: modules, authority: 'a' }), nothing)
  t.same(all({ plan: null }), nothing, 'also without module versions and authority')
})

t.test("a plan that only the chain has is scheduled, and replaces the log's plan", async (t) => {
  t.same(given()({ plan: v2 }).events, [scheduled(v2)])
  const moved = { ...v2, height: '130' }
  t.same(given(scheduled(v2))({ plan: moved }).events, [scheduled(moved)])
  const replaced = given(scheduled(v2))({ plan: v3, applied: { name: 'v2', height: '0' } })
  t.same(replaced.events, [scheduled(v3)])
})

t.test(
  'a plan that is gone from the chain is applied at the height that the chain reports, or canceled',
  async (t) => {
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
  },
)

t.test('a plan that was applied below the height in the log is first moved to that height', async (t) => {
  const seen = { plan: null, applied: { name: 'v2', height: '99' } }
  t.same(given(scheduled(v2))(seen).events, [
    scheduled({ ...v2, height: '99' }),
    { type: 'PlanApplied', data: { name: 'v2', height: '99' } },
  ])
})

t.test('the applied height of another plan is not used for the plan that is scheduled now', async (t) => {
  const asked = { plan: null, applied: { name: 'v1', height: '7' } }
  t.same(given(scheduled(v2))(asked), { events: [], refused: [] })
  t.same(given(scheduled(v2))({ plan: null }), { events: [], refused: [] })
})

t.test("parts that Mergelog's rules refuse are reported, and the other parts are recorded", async (t) => {
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

t.test('a plan is canceled also when its replacement on the chain is refused', async (t) => {
  const seen = { plan: v2, applied: { name: 'v3', height: '0' } }
  const { events, refused } = given(scheduled(v2), appliedV2, scheduled(v3))(seen)
  t.same(events, [{ type: 'PlanCanceled', data: { name: 'v3' } }])
  t.equal(refused.length, 1)
})
