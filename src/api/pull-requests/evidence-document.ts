/** The document of a merge's evidence, which can be checked years later without the server: `evidence.3`. */
import { type Static, Type } from 'typebox'
import { checkOf } from '../../storage/checked-json.ts'
import { Nullable } from '../nullable.ts'
import { EvidenceCommits, EvidenceFacts } from './evidence.ts'

export const EVIDENCE_FORMAT = 'mergelog-evidence/1'

const StoredEvent = Type.Object({
  stream: Type.String(),
  revision: Type.Integer(),
  position: Type.Integer(),
  id: Type.String(),
  type: Type.String(),
  /** The stored JSON texts, byte for byte: the hash covers them. Texts of users are sealed. */
  data: Type.String(),
  metadata: Type.String(),
  /** The inclusion proof of RFC 9162 in the log of the checkpoint, in base64; null without a checkpoint. */
  proof: Nullable(Type.Object({ index: Type.Integer(), hashes: Type.Array(Type.String()) })),
})
export type StoredEvent = Static<typeof StoredEvent>

const EvidenceDocument = Type.Object({
  format: Type.Literal(EVIDENCE_FORMAT),
  /** Name of the repository when the document was made. */
  repository: Type.String(),
  made_at: Type.String(),
  facts: EvidenceFacts,
  /** From git, when the document was made: the log does not prove them. */
  commits: EvidenceCommits,
  /** The events that the facts follow from, in the order of the log. */
  events: Type.Array(StoredEvent),
  /** Other events of the pull request up to the merge, such as comments: their hashes complete the chain. */
  omitted: Type.Array(Type.Object({ revision: Type.Integer(), hash: Type.String() })),
  /** The signed note of the checkpoint; null without one. */
  checkpoint: Nullable(Type.String()),
  /** Why there is no checkpoint. */
  unproven: Nullable(Type.String()),
})
export type EvidenceDocument = Static<typeof EvidenceDocument>

export const isEvidenceDocument = checkOf(EvidenceDocument)
