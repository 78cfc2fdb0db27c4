/** What else the Query service knows of the chain: who conducts upgrades, and what the next chain begins with. */
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export type ChainFactDocument =
  | { fact: 'authority'; address: string }
  /** `state` in base64. */
  | { fact: 'consensus-state'; lastHeight: string; state: string }

export const chainFacts: Collection<ChainFactDocument> = {
  name: 'chain_facts',
  indexes: [],
  arrays: [],
}

const AUTHORITY = 'authority'
const consensusStateId = (lastHeight: string) => `consensus-state-${lastHeight}`

export const chainFactFold: Fold<ChainFactDocument> = {
  collection: chainFacts,
  version: 1,
  touches(event) {
    switch (event.type) {
      case 'AuthorityChanged':
        return [AUTHORITY]
      case 'ConsensusStateStored':
        return [consensusStateId(event.data.lastHeight)]
      default:
        return []
    }
  },
  evolve(document, event) {
    switch (event.type) {
      case 'AuthorityChanged':
        return { fact: 'authority', address: event.data.address }
      case 'ConsensusStateStored':
        return { fact: 'consensus-state', ...event.data }
      default:
        return document
    }
  },
}

export const chainFactModel = readModel(chainFactFold)
