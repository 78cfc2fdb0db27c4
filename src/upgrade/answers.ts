/**
 * The answers of the upgrade Query service, for gRPC and HTTP. All data is in memory, and read again after changes by
 * the projector.
 */

import type { ModuleVersion, UpgradePlan } from '../events/catalog/upgrade.ts'
import type { Position } from '../events/store/event-store.ts'
import { chainFacts } from '../projections/models/upgrade/chain-facts.fold.ts'
import { MODULE_VERSIONS_ID, moduleVersions } from '../projections/models/upgrade/module-versions.fold.ts'
import { upgradePlans } from '../projections/models/upgrade/upgrade-plans.fold.ts'
import type { Projector } from '../projections/projector/projector.ts'
import type { ReadStore, Touched } from '../projections/store/read-store.ts'

const COLLECTIONS = new Set([upgradePlans.name, moduleVersions.name, chainFacts.name])

/** Thrown when the projections have not caught up since the start, or have stopped: an answer would be out of date. */
export class UpgradeUnavailable extends Error {
  override readonly name = 'UpgradeUnavailable'
  /** Whether only an operator can end that. */
  readonly lasts: boolean

  constructor(message: string, { lasts = false } = {}) {
    super(message)
    this.lasts = lasts
  }
}

/** Each method throws `UpgradeUnavailable` while the projections catch up. */
export interface UpgradeAnswers {
  /** `upgrade.plan.1`: null when no plan is scheduled. */
  currentPlan(): Promise<UpgradePlan | null>
  /** `upgrade.applied.1`: the height at which the plan was applied; `0` when no plan of that name was applied. */
  appliedHeight(name: string): Promise<string>
  /**
   * `upgrade.modules.1`, `upgrade.modules.2`: returns all modules when `name` is empty; undefined for an unknown module.
   */
  moduleVersions(name: string): Promise<readonly ModuleVersion[] | undefined>
  /** `upgrade.authority.1`: empty when no authority is recorded. */
  authority(): Promise<string>
  /** `upgrade.consensus.1`: empty when nothing is stored under that height. */
  upgradedConsensusState(lastHeight: string): Promise<Buffer>
  /** Whether the methods can answer: all projections have caught up and are running. */
  ready(): boolean
  /** The projector calls this with the documents that it changed. */
  applied(touched: readonly Touched[]): void
  /** Called when a collection was rebuilt. */
  exchanged(collection: string): void
}

const NOTHING = Buffer.alloc(0)

/**
 * `caughtUpAt` is the end of the log at the start. Queries are refused until the projections reach it, and while this
 * node is not a member (`isMember`).
 */
export function createUpgradeAnswers(
  store: Pick<ReadStore, 'find' | 'get'>,
  projector: Pick<Projector, 'status' | 'current' | 'position'>,
  caughtUpAt: Position,
  isMember: () => boolean = () => true,
): UpgradeAnswers {
  let latest: ReturnType<typeof read> | undefined
  let haveCaughtUp = false

  const modelsNow = () => projector.status().filter(({ name }) => COLLECTIONS.has(name))

  function ready(): boolean {
    const models = modelsNow()
    if (!isMember() || models.some(({ stopped }) => stopped !== undefined)) return false
    // The log may end with events that no read model handles; the projector passes them.
    haveCaughtUp ||=
      models.every(({ position }) => position >= caughtUpAt) || projector.position() >= caughtUpAt
    return haveCaughtUp
  }

  async function read() {
    const [plans, modules, facts] = await Promise.all([
      store.find(upgradePlans, {}),
      store.get(moduleVersions, MODULE_VERSIONS_ID),
      store.find(chainFacts, {}),
    ])
    const all = modules?.moduleVersions ?? []
    const applied = plans.filter((plan) => plan.state === 'applied')
    const states = facts.filter((fact) => fact.fact === 'consensus-state')
    return {
      plan: plans.find((plan) => plan.state === 'scheduled') ?? null,
      applied: new Map(applied.map(({ name, height }) => [name, height])),
      modules: all,
      moduleByName: new Map(all.map((module) => [module.name, module])),
      authority: facts.find((fact) => fact.fact === 'authority')?.address ?? '',
      consensusStates: new Map(
        states.map(({ lastHeight, state }) => [lastHeight, Buffer.from(state, 'base64')]),
      ),
    }
  }

  function unavailable(): UpgradeUnavailable {
    const stopped = modelsNow().find((model) => model.stopped !== undefined)
    if (stopped === undefined) return new UpgradeUnavailable('the projections are catching up; try again')
    const { name } = stopped
    return new UpgradeUnavailable(`the read model ${name} has stopped; /healthz says why`, { lasts: true })
  }

  async function snapshot() {
    // Throws when the store cannot report whether the models are current.
    await projector.current()
    if (!ready()) throw unavailable()
    const reading = latest ?? read()
    latest = reading
    try {
      return await reading
    } catch (error) {
      // The next request reads again.
      if (latest === reading) latest = undefined
      throw error
    }
  }

  return {
    ready,
    applied(touched) {
      if (touched.some(({ collection }) => COLLECTIONS.has(collection.name))) latest = undefined
    },
    exchanged(collection) {
      if (COLLECTIONS.has(collection)) latest = undefined
    },
    currentPlan: async () => (await snapshot()).plan,
    appliedHeight: async (name) => (await snapshot()).applied.get(name) ?? '0',
    async moduleVersions(name) {
      const { modules, moduleByName } = await snapshot()
      if (name === '') return modules
      const module = moduleByName.get(name)
      return module && [module]
    },
    authority: async () => (await snapshot()).authority,
    upgradedConsensusState: async (lastHeight) =>
      (await snapshot()).consensusStates.get(lastHeight) ?? NOTHING,
  }
}
