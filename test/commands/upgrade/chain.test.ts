import t from 'tap'
import {
  chainDecider,
  decideApplyPlan,
  decideCancelPlan,
  decideChangeAuthority,
  decideSchedulePlan,
  decideSetModuleVersions,
  decideStoreConsensusState,
} from '../../../src/commands/upgrade/chain.decider.ts'
import type { UpgradeEvent } from '../../../src/events/catalog/upgrade.ts'
import { specify } from '../../specification.ts'

const v2 = { name: 'v2', height: '9007199254740993', info: 'binaries' }
const v3 = { name: 'v3', height: '9007199254740999', info: '' }
const scheduled = (plan = v2): UpgradeEvent => ({ type: 'PlanScheduled', data: { plan } })
const applied: UpgradeEvent = { type: 'PlanApplied', data: { name: 'v2', height: v2.height } }
const canceled: UpgradeEvent = { type: 'PlanCanceled', data: { name: 'v2' } }

t.test('plan: a new plan replaces the scheduled one', async (t) => {
  const { given } = specify(t, chainDecider)
  given()
    .when((state) => decideSchedulePlan(state, v2))
    .thenEvents(scheduled())
  given(scheduled())
    .when((state) => decideSchedulePlan(state, v3))
    .thenEvents(scheduled(v3))
  given(scheduled())
    .when((state) => decideSchedulePlan(state, { ...v2, height: '7' }))
    .thenEvents(scheduled({ ...v2, height: '7' }))
  given(scheduled())
    .when((state) => decideSchedulePlan(state, v2))
    .thenEvents()
  given(scheduled(), canceled)
    .when((state) => decideSchedulePlan(state, v2))
    .thenEvents(scheduled())
})

t.test('plan: a name that was applied cannot be scheduled again', async (t) => {
  const { given } = specify(t, chainDecider)
  given(scheduled(), applied)
    .when((state) => decideSchedulePlan(state, { ...v2, height: '9223372036854775807' }))
    .thenRefused('conflict', `name: the upgrade "v2" was applied at height ${v2.height} already`)
  given(scheduled(), applied)
    .when((state) => decideSchedulePlan(state, v3))
    .thenEvents(scheduled(v3))
})

t.test('plan: a height must be positive, and a name not empty', async (t) => {
  const { given } = specify(t, chainDecider)
  for (const height of ['0', '-1', '-9223372036854775808']) {
    given()
      .when((state) => decideSchedulePlan(state, { ...v2, height }))
      .thenRefused('unprocessable', 'height: must be greater than 0')
  }
  given()
    .when((state) => decideSchedulePlan(state, { ...v2, name: '' }))
    .thenRefused('unprocessable', 'name: must not be empty')
})

t.test('plan: applying records the height and clears the plan', async (t) => {
  const { given } = specify(t, chainDecider)
  given(scheduled())
    .when((state) => decideApplyPlan(state))
    .thenEvents(applied)
  given(scheduled())
    .when((state) => decideApplyPlan(state, '9007199254740994'))
    .thenEvents({ type: 'PlanApplied', data: { name: 'v2', height: '9007199254740994' } })
  given(scheduled(), applied)
    .when((state) => decideApplyPlan(state))
    .thenRefused('notFound', 'no upgrade plan is scheduled')
  given(scheduled())
    .when((state) => decideApplyPlan(state, '9007199254740992'))
    .thenRefused('unprocessable')
})

t.test('plan: cancelling with no plan is refused', async (t) => {
  const { given } = specify(t, chainDecider)
  given(scheduled()).when(decideCancelPlan).thenEvents(canceled)
  for (const before of [[], [scheduled(), canceled], [scheduled(), applied]]) {
    given(...before)
      .when(decideCancelPlan)
      .thenRefused('notFound', 'no upgrade plan is scheduled')
  }
})

t.test('module versions are a whole list, each name once, in the order of the names', async (t) => {
  const { given } = specify(t, chainDecider)
  const auth = { name: 'auth', version: '5' }
  const bank = { name: 'bank', version: '18446744073709551615' }
  const set: UpgradeEvent = { type: 'ModuleVersionsSet', data: { moduleVersions: [auth, bank] } }
  given()
    .when((state) => decideSetModuleVersions(state, [bank, auth]))
    .thenEvents(set)
  given(set)
    .when((state) => decideSetModuleVersions(state, [bank, auth]))
    .thenEvents()
  given(set)
    .when((state) => decideSetModuleVersions(state, [auth]))
    .thenEvents({ type: 'ModuleVersionsSet', data: { moduleVersions: [auth] } })
  given(set)
    .when((state) => decideSetModuleVersions(state, [auth, auth]))
    .thenRefused('unprocessable', 'module_versions: "auth" is named twice')
  given(set)
    .when((state) => decideSetModuleVersions(state, [{ name: '', version: '1' }]))
    .thenRefused('unprocessable')
  const long = Array.from({ length: 500 }, (_, i) => ({ name: `${i}`.padEnd(1000, 'n'), version: '1' }))
  given(set)
    .when((state) => decideSetModuleVersions(state, long))
    .thenRefused('unprocessable', 'module_versions: all names together are over 400000 bytes')
})

t.test('the authority and consensus states are recorded when they change', async (t) => {
  const { given } = specify(t, chainDecider)
  const authority: UpgradeEvent = { type: 'AuthorityChanged', data: { address: 'cosmos1gov' } }
  given()
    .when((state) => decideChangeAuthority(state, 'cosmos1gov'))
    .thenEvents(authority)
  given(authority)
    .when((state) => decideChangeAuthority(state, 'cosmos1gov'))
    .thenEvents()
  given(authority)
    .when((state) => decideChangeAuthority(state, ''))
    .thenRefused('unprocessable')

  const stored: UpgradeEvent = { type: 'ConsensusStateStored', data: { lastHeight: '41', state: 'AQI=' } }
  given()
    .when((state) => decideStoreConsensusState(state, '41', 'AQI='))
    .thenEvents(stored)
  given(stored)
    .when((state) => decideStoreConsensusState(state, '41', 'AQI='))
    .thenEvents()
  given(stored)
    .when((state) => decideStoreConsensusState(state, '0', 'AQI='))
    .thenRefused('unprocessable', 'last_height: must be greater than 0')
})

t.test('a lone surrogate, which no protobuf message can hold, is refused in every text', async (t) => {
  const { given } = specify(t, chainDecider)
  const half = 'half\ud800'
  given()
    .when((state) => decideSchedulePlan(state, { ...v2, name: half }))
    .thenRefused('unprocessable', 'name: contains a lone surrogate')
  given()
    .when((state) => decideSchedulePlan(state, { ...v2, info: half }))
    .thenRefused('unprocessable', 'info: contains a lone surrogate')
  given()
    .when((state) => decideSetModuleVersions(state, [{ name: half, version: '1' }]))
    .thenRefused('unprocessable', 'module_versions: a name: contains a lone surrogate')
  given()
    .when((state) => decideChangeAuthority(state, half))
    .thenRefused('unprocessable', 'address: contains a lone surrogate')
  given()
    .when((state) => decideSchedulePlan(state, { ...v2, name: 'whole 🙂' }))
    .thenEvents(scheduled({ ...v2, name: 'whole 🙂' }))
})
