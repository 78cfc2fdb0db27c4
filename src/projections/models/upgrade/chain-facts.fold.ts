/** Other data for the gRPC Query service: the authority over upgrades, and the consensus state for the next chain. */
import { type Fold, foldOf } from '../../projector/read-model.ts'

export type ChainFactDocument =
  | { fact: 'authority'; address: string }
  /** `state` is base64. */
  | { fact: 'consensus-state'; lastHeight: string; state: string }

const AUTHORITY = 'authority'
const consensusStateId = (lastHeight: string) => `consensus-state-${lastHeight}`

export const chainFactFold: Fold<ChainFactDocument> = foldOf({
  name: 'chain_facts',
  version: 1,
  ids: ({ data }) => ['address' in data ? AUTHORITY : consensusStateId(data.lastHeight)],
  becomes: {
    AuthorityChanged: (_, { data }) => ({ fact: 'authority', address: data.address }),
    ConsensusStateStored: (_, { data }) => ({ fact: 'consensus-state', ...data }),
  },
})

export const chainFacts = chainFactFold.collection
