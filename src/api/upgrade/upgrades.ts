/** Upgrade plans and module versions on the wire, as the gateways of blockchains send them. */
import { type Static, Type } from 'typebox'
import { ZERO_TIME } from '../../domain/times.ts'
import type { UpgradePlan } from '../../events/catalog/upgrade.ts'

export const Int64 = Type.String({ description: 'Height of the chain: int64 in decimal digits' })

export const ModuleVersionsWire = Type.Object(
  {
    module_versions: Type.Array(
      Type.Object({
        name: Type.String(),
        version: Type.String({ description: 'Consensus version: uint64 in decimal digits' }),
      }),
    ),
  },
  { title: 'ModuleVersions' },
)

export const PlanWire = Type.Object(
  {
    name: Type.String(),
    time: Type.String({ deprecated: true }),
    height: Int64,
    info: Type.String(),
    upgraded_client_state: Type.Null({ deprecated: true }),
  },
  { title: 'UpgradePlan' },
)

/** The plan in protobuf's JSON mapping. As chains do, it has the deprecated `time`, which must not be set, as zero. */
export function planWire({ name, height, info }: UpgradePlan): Static<typeof PlanWire> {
  return { name, time: ZERO_TIME, height, info, upgraded_client_state: null }
}
